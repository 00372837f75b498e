"""Artifacts and manifests in a folder, shared by all processes of a machine."""
