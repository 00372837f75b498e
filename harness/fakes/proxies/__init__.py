"""Local proxies: one that speaks Bright Data's protocol, and one with faults that a test switches on."""
