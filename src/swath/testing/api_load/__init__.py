"""`make load`: the API of a real controller with a million items: loading, a kill on the way, and looking."""
