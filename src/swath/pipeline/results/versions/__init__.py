"""Makes new versions of a job's results from its stored pages."""
