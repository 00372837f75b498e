"""The command `swath`. One file per group of commands; main.py finds them when they are asked for."""
