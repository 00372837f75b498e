"""Seats: sessions that items share, how many there are, and which item goes where."""
