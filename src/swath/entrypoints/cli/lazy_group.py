"""A click group that imports a command when it is called, so that starting is quick."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from swath.domain.errors import UnknownName

__all__ = ["LazyGroup"]


class LazyGroup(click.Group):
    """`lazy` says for each command where it is (`module:name`), and what the list of commands says of it."""

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        module, _, name = self._lazy[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self._lazy and not ctx.resilient_parsing:  # a shell that completes words may not err
            hint = f"see `{ctx.command_path} --help`"
            raise click.UsageError(str(UnknownName.of("command", args[0], self._lazy, hint)))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._lazy.items()])
