"""Whole recordings: whether what a valid document says can be done at all. Nothing here opens a page."""
