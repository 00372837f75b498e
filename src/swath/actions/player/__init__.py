"""The player: plays a recording for one item, step by step, on a stage in a real browser."""
