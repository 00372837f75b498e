"""The session of an attempt, the gate its requests pass, and the transports that send them."""
