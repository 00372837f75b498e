"""The REST API of the controller, and the HTTP server that it runs on."""
