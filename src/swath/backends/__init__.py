"""Where jobs, leases and files really live. Each back end implements the ports and knows nothing of the others."""
