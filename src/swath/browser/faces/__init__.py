"""Faces: what a context looks like to a site, in agreement with the real browser and with the region it comes from."""
