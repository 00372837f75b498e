"""Recorded actions: a small language for what a person does on a site, importers of recordings, and the player."""
