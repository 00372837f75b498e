"""Rates, slots and circuits of sites, shared by a fleet in DynamoDB."""
