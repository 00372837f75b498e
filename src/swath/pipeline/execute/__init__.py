"""What a worker does with a lease: attempts, retries, grouped commits, and keeping hold of it meanwhile."""
