"""The `swath` command line. Only the module of the command that was given is imported."""
