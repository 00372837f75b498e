"""The recording language as typed models: selectors, templates, rules, steps, and whole recordings. Runs no code."""
