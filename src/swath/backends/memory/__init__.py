"""Everything in plain dicts, gone with the process: for tests, and the shortest statement of what a store must do."""
