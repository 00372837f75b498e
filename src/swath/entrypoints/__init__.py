"""The processes that people start: the command line, and the controller with its REST API."""
