"""Proxy providers, proxy health, and the choice of a proxy for each attempt."""
