"""What processes of one machine know of each other: live workers, what they run, listening ports."""
