"""Extracts values from stored pages by the rules of a recording. Pure: the same page always gives the same value."""
