"""Browser sessions that items share: how many there are, and which item gets which."""
