"""Browsers for scrapers: Chromium processes, contexts that items share, and the tab an item works in."""
