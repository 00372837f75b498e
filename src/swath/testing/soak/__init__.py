"""`make soak`: a million items through the real store, loader, workers and ending, measured against bare loops."""
