"""Measures the code base: sizes of modules, and how many of them an item and a scrape run through."""
