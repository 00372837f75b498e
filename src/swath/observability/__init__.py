"""Logs, counters, metrics, traces and crash points."""
