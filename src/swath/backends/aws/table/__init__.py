"""The one DynamoDB table, and where in it each kind of row is."""
