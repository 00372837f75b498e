"""A page that looks for what gives an automated browser away, and says each thing it finds in words.

Tests and trials open it in a browser; `site.py` serves it, `judge.py` reads what it saw. Loopback only.
"""
