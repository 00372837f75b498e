"""Measures how long each change of a large SQLite store blocks other writers (`make lock-times`)."""
