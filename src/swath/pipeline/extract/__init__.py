"""Extracts records from fetched or stored pages."""
