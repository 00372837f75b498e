"""`swath keys create|list|revoke`: the service keys that all controllers of a store accept (I5)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

from swath.bootstrap.services import open_services
from swath.domain.errors import BadInput
from swath.domain.service_key import Scope, ServiceKey, new_key
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.options import json_option
from swath.entrypoints.cli.output import command, print_json, print_table
from swath.entrypoints.cli.runtime import begin, run_async
from swath.settings import Settings

__all__ = ["create_key", "keys", "list_keys", "revoke_key"]

MAX_NAME_CHARS: Final = 100
_DURATION: Final = re.compile(r"([0-9]{1,6})([mhdw])")
_HIDDEN_FIELDS: Final = ("digest", "expired")  # `alive` says the latter
_UNIT_SECONDS: Final = {"m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}


async def create_key(
    settings: Settings, name: str, scopes: Sequence[str], expires: str | None, *, as_json: bool
) -> ExitCode:
    """Prints the key on stdout, and all else on stderr, so that it can be piped to where it is kept."""
    if not 0 < len(name) <= MAX_NAME_CHARS or not name.isprintable():
        raise BadInput(f"NAME must be 1 to {MAX_NAME_CHARS} printable characters")
    async with open_services(settings) as services:
        now = services.clock.now()
        chosen = tuple(scope for scope in Scope if scope.value in scopes)
        key, text = new_key(name, chosen, now, None if expires is None else now + _seconds(expires))
        await services.store.add_key(key)
    if as_json:
        print_json({**_as_json(key, now), "key": text.reveal()})
        return ExitCode.COMPLETE
    click.echo(text.reveal())
    click.echo(
        f"key {key.key_id} ({name}) allows {', '.join(chosen)} and {_expiry_text(key)}; it is not shown again. "
        f"Take it back with `{command('keys', 'revoke', key.key_id)}`",
        err=True,
    )
    return ExitCode.COMPLETE


async def list_keys(settings: Settings, *, as_json: bool) -> ExitCode:
    """Prints what is known of them, which is nothing that opens anything."""
    async with open_services(settings, only_looks=True) as services:
        found, now = await services.store.keys(), services.clock.now()
    if as_json:
        print_json([_as_json(key, now) for key in found])
        return ExitCode.COMPLETE
    print_table(
        ("id", "name", "scopes", "made", "stands"),
        [
            (key.key_id, key.name, ", ".join(key.scopes), _date_text(key.created_at), _key_state_text(key, now))
            for key in found
        ],
        shorten=("name",),
    )
    return ExitCode.COMPLETE


async def revoke_key(settings: Settings, key_id: str, *, as_json: bool) -> ExitCode:
    """One that was revoked before stays as it is."""
    async with open_services(settings) as services:
        key, now = await services.store.revoke_key(key_id), services.clock.now()
        others = [one for one in await services.store.keys() if one.alive(now)]
    if as_json:
        print_json(_as_json(key, now))
        return ExitCode.COMPLETE
    click.echo(f"key {key.key_id} ({key.name}) is revoked")
    if not others:
        make = command("keys", "create", "NAME")
        click.echo(f"it was the last one, so nobody is let in any more; make one with `{make}`", err=True)
    return ExitCode.COMPLETE


def _seconds(text: str) -> float:
    found = _DURATION.fullmatch(text.strip())
    if found is None or int(found[1]) == 0:
        raise BadInput(f"--expires {text}: write it as 90d, 12h, 30m or 4w")
    return float(int(found[1]) * _UNIT_SECONDS[found[2]])


def _as_json(key: ServiceKey, now: float) -> dict[str, Any]:
    shown = {name: value for name, value in msgspec.to_builtins(key).items() if name not in _HIDDEN_FIELDS}
    return shown | {"alive": key.alive(now)}


def _expiry_text(key: ServiceKey) -> str:
    return "does not expire" if key.expires_at is None else f"expires on {_date_text(key.expires_at)}"


def _key_state_text(key: ServiceKey, now: float) -> str:
    if key.revoked_at is not None:
        return f"revoked on {_date_text(key.revoked_at)}"
    return f"expired on {_date_text(key.expires_at or 0)}" if not key.alive(now) else _expiry_text(key)


def _date_text(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds).astimezone().date().isoformat()


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

    return run_async(create_key(begin(), name, scopes, expires, as_json=as_json))


@keys.command("list")
@json_option
def list_(as_json: bool) -> int:
    """List all keys, the oldest first, also those that open nothing any more."""

    return run_async(list_keys(begin(), as_json=as_json))


@keys.command()
@click.argument("key_id", metavar="ID")
@json_option
def revoke(key_id: str, as_json: bool) -> int:
    """Let the key ID open nothing from now on; controllers that run know it within seconds."""

    return run_async(revoke_key(begin(), key_id, as_json=as_json))
