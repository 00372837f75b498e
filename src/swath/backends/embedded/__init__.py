"""The default back end: one SQLite file and a folder. Several processes on one machine may share it."""
