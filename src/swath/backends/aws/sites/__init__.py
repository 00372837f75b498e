"""What the workers of a fleet know together of sites, in the table."""
