"""Runs schemathesis against a real controller (`make fuzz-api`)."""
