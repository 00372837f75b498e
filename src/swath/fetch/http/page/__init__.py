"""Pages as scrapers see them: selectors, forms, and what an attempt stores."""
