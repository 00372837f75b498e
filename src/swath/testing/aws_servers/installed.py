"""Where `make servers` installs the servers. Used by servers.py, which starts them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

__all__ = ["NotInstalled", "dynamodb_local", "java", "server_program"]

ROOT: Final = Path(__file__).parents[4]
_HOW: Final = "`make servers` installs the AWS services of the tests"


class NotInstalled(Exception):
    """A server is missing. The message says what to do."""


def java() -> str:
    """The program that runs DynamoDB Local."""
    found = shutil.which("java")
    if found is None:
        raise NotInstalled(f"java not found (Debian: apt-get install default-jre-headless); {_HOW}")
    return found


def dynamodb_local() -> Path:
    """The jar, beside its libraries."""
    jars = sorted((ROOT / ".servers/package/lib").glob("dynamodb_local_*/DynamoDBLocal.jar"))
    if not jars:
        raise NotInstalled(f"DynamoDB Local not found; {_HOW}")
    return jars[-1]


def server_program(name: str) -> Path:
    """A program of the servers' own Python environment."""
    program = ROOT / ".venv-servers/bin" / name
    if not program.exists():
        raise NotInstalled(f"{name} not found; {_HOW}")
    return program
