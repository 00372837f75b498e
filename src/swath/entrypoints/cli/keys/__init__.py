"""`swath keys`: commands.py has the arguments, ring.py does the work."""
