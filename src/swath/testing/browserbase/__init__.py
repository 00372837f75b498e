"""A Browserbase of our own, on loopback: its API and limits as documented, with real Chromiums behind it."""
