"""`python -m swath`: the command line, where its script is not on the path."""

from __future__ import annotations

from swath.entrypoints.cli.main import main

if __name__ == "__main__":
    main()
