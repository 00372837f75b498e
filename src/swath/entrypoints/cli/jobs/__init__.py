"""`swath jobs …`: jobs in the store, whoever runs them. commands.py declares them; the other files do the work."""
