"""Other people's systems that Swath talks to."""
