"""Verifies that store, manifests and stored files of a job agree."""
