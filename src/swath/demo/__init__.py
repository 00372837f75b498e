"""The demo that ships with Swath: a county site to scrape."""
