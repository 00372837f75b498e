"""Tells pages from blocks, captchas, outages and expired sessions. Pure."""
