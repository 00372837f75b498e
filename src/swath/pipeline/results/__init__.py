"""What people do with the results of a job: verify, export, compare, trace, extract again."""
