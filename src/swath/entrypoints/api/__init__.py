"""The controller's HTTP API (I1-I5): app.py puts it together, gate.py lets requests in, routes/ answer them."""
