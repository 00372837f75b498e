"""Simulates a fleet of workers on a fake clock, with the dispatch code of the AWS store (`make simulate`)."""
