"""The back end of a fleet: DynamoDB for jobs and sites, SQS for hints, S3 for results."""
