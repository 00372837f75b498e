"""A bounded pool of Chromium processes: who gets a slot in one, and when one is replaced."""
