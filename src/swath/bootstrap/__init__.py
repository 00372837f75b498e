"""The one place where implementations are chosen and joined, by plain constructor calls.

Each command imports the part that it needs: reading a store takes no network, and no browsers."""
