"""Decides where connections may go. Everything that connects asks the guard first and dials what it has checked."""
