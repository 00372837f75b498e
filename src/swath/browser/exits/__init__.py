"""Exits: the only way out of a browser. A port for each context, with the egress guard and the proxy behind it."""
