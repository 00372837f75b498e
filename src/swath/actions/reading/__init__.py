"""Reads values off stored pages by the rules of a recording. Pure: the same page gives the same value, years later."""
