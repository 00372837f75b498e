"""Makes the wall clock of a running process jump, forward or back, while its boot and monotonic clocks go on."""
