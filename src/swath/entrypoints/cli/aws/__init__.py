"""`swath aws …`: what Swath keeps on AWS. commands.py declares the commands; the other files do the work."""
