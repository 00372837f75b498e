"""One module for each group of endpoints; each has a `router`, and app.py includes them."""
