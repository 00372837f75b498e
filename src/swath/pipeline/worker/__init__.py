"""Claims leases, runs their items, and commits the outcomes."""
