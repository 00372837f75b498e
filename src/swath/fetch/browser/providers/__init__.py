"""Where browsers come from, behind one protocol: the local pool, any CDP endpoint, or Browserbase."""
