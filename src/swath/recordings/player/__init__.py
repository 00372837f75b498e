"""Plays a recording for one item, step by step, in a browser tab."""
