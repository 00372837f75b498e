"""The pool: how many Chromium processes there are, who gets a place in one, and when one is replaced."""
