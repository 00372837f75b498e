"""Records from pages: right after fetching, and again later over what is stored."""
