"""The commands of `swath keys` with their arguments. What each does is in ring.py, imported when it is called."""

from __future__ import annotations

import click

from swath.entrypoints.cli.options import json_option
from swath.entrypoints.cli.session import begin, run_async

__all__ = ["keys"]


@click.group()
def keys() -> None:
    """Make, list and revoke the keys that programs show to `swath serve`."""


@keys.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(["read", "submit", "admin"]),
    default=["submit"],
    help="What it allows: submit, which includes read, unless another is given; admin includes both. May be repeated.",
)
@click.option("--expires", metavar="TIME", help="It opens nothing after so long: 90d, 12h. Default: never.")
@json_option
def create(name: str, scopes: tuple[str, ...], expires: str | None, as_json: bool) -> int:
    """Make a key for the program NAME, and print it. It is shown once, and kept nowhere."""
    from swath.entrypoints.cli.keys.ring import create_key

    return run_async(create_key(begin(), name, scopes, expires, as_json=as_json))


@keys.command("list")
@json_option
def list_(as_json: bool) -> int:
    """List all keys, the oldest first, also those that open nothing any more."""
    from swath.entrypoints.cli.keys.ring import list_keys

    return run_async(list_keys(begin(), as_json=as_json))


@keys.command()
@click.argument("key_id", metavar="ID")
@json_option
def revoke(key_id: str, as_json: bool) -> int:
    """Let the key ID open nothing from now on; controllers that run know it within seconds."""
    from swath.entrypoints.cli.keys.ring import revoke_key

    return run_async(revoke_key(begin(), key_id, as_json=as_json))
