"""One module per proxy provider: builds routes and reads the provider's error answers."""
