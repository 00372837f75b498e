"""The path of a job, in order: ingest, worker, finish, results; formats and extract lie below them."""
