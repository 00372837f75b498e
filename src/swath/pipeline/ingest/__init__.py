"""Turns rows into the items of a job."""
