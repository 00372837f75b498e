"""The back end of one machine: a SQLite file for jobs, one for sites, and a folder of results."""
