"""`swath recording`: commands.py has the list; each command is in a file of its own or with its like."""
