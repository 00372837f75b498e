"""Benchmarks and measurements, each with its own command and report."""
