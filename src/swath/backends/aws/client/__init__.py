"""Requests to AWS: limits, retries, errors, metering, clocks, and the encoding of rows."""
