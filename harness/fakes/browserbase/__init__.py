"""A local Browserbase: its REST API, with real Chromium processes behind the sessions."""
