"""Recordings of what a person does on a site: their schema, importers, player, and extraction from stored pages."""
