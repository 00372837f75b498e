"""Proxies to test against, on loopback: a provider that speaks as Bright Data does, and a plain one with faults."""
