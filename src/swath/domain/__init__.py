"""Words and pure decisions: what a job, an item, a lease and a failure are. Nothing here does I/O."""
