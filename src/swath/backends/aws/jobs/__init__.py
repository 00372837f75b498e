"""The job store in the table: loading, leases, ends, and what people ask of it."""
