"""Where browsers come from: our own pool, any endpoint that speaks CDP, or Browserbase. One protocol for all."""
