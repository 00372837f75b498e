"""The scrapers that come with Swath. The registry lists them from a table and imports one by name."""
