"""What scraper authors use: the base class, typed input and output, and the registry that finds scrapers by id."""
