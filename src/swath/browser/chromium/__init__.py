"""Chromium as a process: found, started with its sandbox on a screen of its own, and ended with all it began."""
