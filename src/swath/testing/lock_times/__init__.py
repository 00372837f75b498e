"""`make lock-times`: how long each change of a large store keeps other writers waiting, and how much it writes.

`work.py` does the work step by step, `meter.py` stands in the place of the connection that writes and measures every
transaction, `report.py` makes the tables of docs/explanation/lock-times.md.
"""
