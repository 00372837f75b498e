"""Kills browsers, their renderers and drivers, and workers, under a running job, then counts: `make chaos-browser`."""
