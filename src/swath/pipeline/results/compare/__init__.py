"""Compares the records of two jobs."""
