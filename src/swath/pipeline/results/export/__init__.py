"""Exports the records of a job for other tools."""
