"""`--server` and `--insecure`: a command asks a controller instead of a store. After: cli/jobs/opened.py.

What cannot go over the wire takes the option too, to say what to do instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click
import msgspec

from swath.domain.errors import BadInput
from swath.entrypoints.cli.session import begin
from swath.settings import Settings, parse_server

__all__ = ["begin_jobs", "no_server_option", "refuse_server", "server_options"]

F = TypeVar("F", bound=Callable[..., Any])

_SERVER: Final = "swath.server"
_INSECURE: Final = "swath.insecure"


def _remember(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        del param
        ctx.meta[name] = value
        return value

    return callback


_SERVER_OPTION: Final[dict[str, Any]] = {"metavar": "URL", "expose_value": False, "callback": _remember(_SERVER)}


def server_options(command: F) -> F:
    """Where the jobs are; the command reads it by `begin_jobs`."""
    insecure = click.option(
        "--insecure",
        is_flag=True,
        expose_value=False,
        callback=_remember(_INSECURE),
        help="Send the key to it even where others could read it.",
    )
    return click.option("--server", **_SERVER_OPTION, help="Ask this controller. Default: SWATH_SERVER.")(
        insecure(command)
    )


def no_server_option(command: F) -> F:
    """For a command that works on a store: what was given is refused by `refuse_server`."""
    return click.option("--server", **_SERVER_OPTION, hidden=True)(command)


def begin_jobs() -> Settings:
    """`begin`, with the controller that was named. Raises BadInput where its key could be read on the way."""
    meta = click.get_current_context().meta
    settings, given = begin(), meta.get(_SERVER)
    if given is not None:
        settings = msgspec.structs.replace(settings, server=parse_server(given, "--server"))
    if settings.server is not None and not meta.get(_INSECURE):
        from swath.entrypoints.cli.remote.address import Address, check_key_is_safe

        check_key_is_safe(Address.of(settings.server), settings.service_key)
    return settings


def refuse_server(what: str, remedy: str) -> None:
    """Raises BadInput when a controller was named on the command line."""
    given = click.get_current_context().meta.get(_SERVER)
    if given is not None:
        raise BadInput(f"{what} works on a store, not on the controller {given}; {remedy}")
