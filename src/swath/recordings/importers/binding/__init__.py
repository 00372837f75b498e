"""Replaces recorded values by inputs, and suggests which columns of a sample row to bind."""
