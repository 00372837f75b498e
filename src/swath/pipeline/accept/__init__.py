"""Accept: people's files become the items of a job. Comes before: the command line or the API. After: dispatch."""
