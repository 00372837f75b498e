"""The chaos run over a job in browsers (`make chaos-browser`)."""
