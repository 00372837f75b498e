"""Ways out through others: providers, the pool of their endpoints, and the ladder from cheap to dear."""
