"""What people do with results: read many at once, export them, compare them, trace a value to its page."""
