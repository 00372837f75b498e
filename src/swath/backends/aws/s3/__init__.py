"""Artifacts and manifests in S3."""
