"""The fleet's back end: jobs in DynamoDB, hints in SQS, results in S3. Needs the extra `swath[aws]`."""
