"""Where we may connect to: every way out of the process asks the guard first, and dials what it has checked."""
