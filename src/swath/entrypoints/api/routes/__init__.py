"""The endpoints of the API. Each module has one router; `app.py` mounts them all."""
