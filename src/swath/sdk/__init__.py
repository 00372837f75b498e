"""What scraper authors use: base classes, typed input and output, and the registry that finds scrapers by id."""
