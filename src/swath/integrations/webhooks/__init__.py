"""Webhooks about the ends of jobs."""
