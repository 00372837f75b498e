"""Browsers: Chromium processes, contexts with a way out and a face of their own, and sessions that items share.

An extra (`pip install swath[browser]`): nothing outside imports this package until a browser scraper runs.
"""
