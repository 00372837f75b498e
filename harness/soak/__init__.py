"""Runs a million items and measures load, memory, claims and manifests (`make soak`)."""
