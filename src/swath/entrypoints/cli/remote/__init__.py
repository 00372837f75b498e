"""What the commands do with `--server URL`: requests to a controller in place of a store."""
