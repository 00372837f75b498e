"""What can be seen of a running system, and where a test can stop it."""
