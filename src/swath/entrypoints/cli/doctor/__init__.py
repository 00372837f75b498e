"""`swath doctor`: is this installation well? finding.py says what a check answers, CHECKS in checks.py lists them."""
