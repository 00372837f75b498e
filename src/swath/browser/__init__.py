"""Browsers: Chromium processes, contexts with a way out and a face of their own, and sessions that items share.

The driver is an extra (`pip install swath[browser]`): bootstrap loads what needs it when a browser scraper first runs.
"""
