"""What the pipeline needs from the outside, as Protocols. Each method's docstring is its contract, and
`swath.testing.contracts` holds every back end to it."""
