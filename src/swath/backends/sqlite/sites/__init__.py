"""Rates, slots and circuits of sites, in a SQLite file of their own."""
