"""`make fuzz-api`: schemathesis against a real controller, for longer than a test may take."""
