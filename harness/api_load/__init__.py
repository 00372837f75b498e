"""Loads a million items over HTTP and measures the API meanwhile (`make load`)."""
