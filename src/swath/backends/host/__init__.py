"""What processes of one host know of each other without a word over the network, for every store that has several."""
