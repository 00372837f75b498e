"""What the pipeline asks of the world: one small protocol for each part of a store and for each service."""
