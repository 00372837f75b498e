"""Browsers: Chromium processes, contexts with a way out and a face of their own, and sessions that items share.

Its driver is an extra (`pip install swath[browser]`): bootstrap loads what needs it when the first browser scraper runs.
"""
