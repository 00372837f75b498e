"""Brings a job whose items have all ended to its terminal state, and deletes jobs."""
