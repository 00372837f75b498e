"""Runs one imported recording over many parcels of a county that fails now and then (`make recordings`)."""
