"""Test rigs that run the real product: chaos, simulation, benchmarks, soak, fleet, and fake services. Not shipped."""
