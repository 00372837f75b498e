"""Checks a whole recording before anything of it runs. Opens no page."""
