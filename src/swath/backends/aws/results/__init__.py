"""Results in S3."""
