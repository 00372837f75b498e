"""Jobs, items and leases in SQLite. Each function runs inside one transaction."""
