"""`swath scraper list|show`: the scrapers that can be run here."""

from __future__ import annotations

import json
from typing import Any

import click

from swath.bootstrap.scrapers import make_registry
from swath.entrypoints.cli.output import print_json, print_table
from swath.entrypoints.cli.runtime import begin
from swath.sdk.declaration import ScraperInfo

__all__ = ["scraper"]


@click.group()
def scraper() -> None:
    """List and show scrapers."""


@scraper.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json: bool) -> None:
    """List the scrapers that can be run here."""
    infos = make_registry(begin()).infos()
    if as_json:
        print_json([_as_json(info) for info in infos])
        return
    print_table(
        ("scraper", "kind", "version", "description", "from"),
        [(info.id, info.kind or "?", info.version, info.description, info.origin) for info in infos],
        shorten=("scraper", "description", "from"),
    )


@scraper.command("show")
@click.argument("reference", metavar="SCRAPER")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(reference: str, as_json: bool) -> None:
    """Show what a scraper takes and gives."""
    found, source = make_registry(begin()).resolve(reference)
    about: dict[str, Any] = {
        "scraper_id": found.id,
        "kind": found.kind,
        "name": found.name,
        "version": found.version,
        "description": found.description,
        "sites": list(found.sites),
        "source": source,
        "input": found.Input.model_json_schema(),
        "output": found.Output.model_json_schema() if found.has_extract else None,
    }
    if as_json:
        print_json(about)
        return
    for key, value in about.items():
        click.echo(f"{key:12} {json.dumps(value) if isinstance(value, (dict, list)) else value}")


def _as_json(info: ScraperInfo) -> dict[str, Any]:
    return {
        "scraper_id": info.id,
        "kind": info.kind or None,
        "name": info.name,
        "version": info.version,
        "description": info.description,
        "sites": list(info.sites),
        "origin": info.origin,
    }
