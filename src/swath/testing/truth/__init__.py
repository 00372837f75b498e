"""Scores the classifier on pages whose meaning is known: `python -m swath.testing.truth FOLDER`."""
