"""The action language: selectors, templates, steps and whole recordings, as typed models. Nothing in it runs code."""
