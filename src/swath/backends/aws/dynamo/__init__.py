"""The DynamoDB table and the keys of its rows."""
