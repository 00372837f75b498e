"""Kills workers on the local AWS servers while these misbehave, then counts what is left: `make chaos-aws`."""
