"""Jobs, items and leases in DynamoDB. The row of a job orders all its changes."""
