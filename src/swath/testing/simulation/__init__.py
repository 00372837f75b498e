"""A simulation of the dispatcher on a fake clock: the AWS store's own code, and pretended pages."""
