"""Kills processes of a running job at random and at every named point, then counts what is left: `make chaos`."""
