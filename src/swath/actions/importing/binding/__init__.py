"""Inputs in the place of what was recorded: forms.py finds a literal, bind.py replaces it, suggest.py proposes."""
