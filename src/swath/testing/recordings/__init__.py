"""A recording of Chrome's, imported, over a thousand parcels of a county that fails now and then: `make recordings`."""
