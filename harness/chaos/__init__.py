"""Kills, freezes and disturbs workers of a job, then counts every item independently (`make chaos`)."""
