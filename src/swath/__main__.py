"""Runs the command line as `python -m swath`, for installations whose script is not on the path."""

from __future__ import annotations

from swath.entrypoints.cli.main import main

if __name__ == "__main__":
    main()
