"""`--server URL`: what `swath jobs` asks of a controller instead of a store. jobs.py is what the commands see of it."""
