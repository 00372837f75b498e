"""Implementations of the ports: SQLite and a folder on one machine, AWS for a fleet."""
