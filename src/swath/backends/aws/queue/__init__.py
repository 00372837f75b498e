"""The work queue on SQS: hints, and whoever waits for them."""
