"""Measures jobs on the local AWS servers: cost, throughput, slots, a large load (`make fleet`)."""
