"""Sites: how each wants to be visited, and the process's part in keeping to it over all workers."""
