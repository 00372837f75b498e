"""The commands of `swath jobs`, for a local store and for a controller (`--server`)."""
