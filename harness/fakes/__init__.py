"""Services that tests and rigs run locally in place of the real ones."""
