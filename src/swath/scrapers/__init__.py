"""The scrapers that come with Swath. The registry lists them by the table in kit/shipped.py and imports one by name."""
