"""The options of `swath run` and `swath jobs create`, as one value."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from swath.domain.errors import BadInput
from swath.domain.storage_keys import Layout
from swath.entrypoints.cli.options import complete_files, complete_jobs, complete_scrapers

__all__ = ["RunArgs", "job_options"]


class RunArgs(msgspec.Struct, frozen=True, kw_only=True):
    """Options as they were given. Without `items` it means a job that is in the store already."""

    scraper: str | None = None
    items: str | None = None
    job_id: str | None = None
    name: str | None = None
    labels: dict[str, str] = {}
    callback_url: str | None = None
    priority: int = 0
    layout: str = Layout.FILES.value
    concurrency: int | None = None
    policy: Path | None = None
    form: str | None = None
    id_column: str | None = None
    mapping: dict[str, str] = {}
    bad_rows: str = "refuse"
    duplicates: str = "refuse"
    limit: int | None = None
    sample: int | None = None
    dry_run: bool = False
    as_json: bool = False
    quiet: bool = False


def job_options(command: Callable[[RunArgs], Any]) -> Callable[..., Any]:
    """The options that say what a job is; the command gets them as one Order."""

    @functools.wraps(command)
    def with_order(**given: Any) -> Any:
        mapping, labels = _pairs(given.pop("mapping"), "--map", "FIELD=COLUMN"), _pairs(given.pop("labels"), "--label")
        return command(RunArgs(**given, mapping=mapping, labels=labels))

    decorated: Callable[..., Any] = with_order
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


class _ApiSpelling(click.Choice[str]):
    """Takes the spelling of the API too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(str(value).replace("_", "-"), param, ctx)


_ROW_COUNT = click.IntRange(1, 1_000_000)

_OPTIONS = (
    click.argument("scraper", metavar="[SCRAPER]", required=False, shell_complete=complete_scrapers),
    click.option(
        "--items",
        metavar="FILE",
        shell_complete=complete_files,
        help="CSV, JSON or JSON Lines, gzip of each; - for stdin.",
    ),
    click.option(
        "--job-id",
        metavar="ID",
        shell_complete=complete_jobs,
        help="Name of the job. Default: from the scraper and the file.",
    ),
    click.option("--concurrency", type=int, metavar="N", help="Items at once (throttling.max_concurrent_workers)."),
    click.option("--policy", type=click.Path(path_type=Path), metavar="FILE", help="Execution policy, YAML or JSON."),
    click.option("--format", "form", type=click.Choice(["csv", "json", "jsonl"]), help="Default: by the file name."),
    click.option("--id-column", metavar="COLUMN", help="Column that names each item. Default: from its input."),
    click.option("--map", "mapping", multiple=True, metavar="FIELD=COLUMN", help="Which column an input field is."),
    click.option("--bad-rows", type=click.Choice(["refuse", "skip"]), default="refuse", show_default=True),
    click.option("--duplicates", type=_ApiSpelling(["refuse", "keep-first"]), default="refuse", show_default=True),
    click.option("--limit", type=_ROW_COUNT, metavar="N", help="Only the first N rows."),
    click.option(
        "--sample", type=_ROW_COUNT, metavar="N", help="Only N rows from all over the file, the same each time."
    ),
    click.option("--dry-run", is_flag=True, help="Check everything and print the plan; store and fetch nothing."),
    click.option("--name", metavar="TEXT", help="A name for people."),
    click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Marks the job; may be repeated."),
    click.option(
        "--priority",
        type=click.IntRange(-1_000_000, 1_000_000),
        default=0,
        show_default=True,
        help="Higher runs first.",
    ),
    click.option(
        "--layout",
        type=click.Choice([layout.value for layout in Layout]),
        default=Layout.FILES.value,
        show_default=True,
        help="How results are stored: a file each, or packed (for many items).",
    ),
    click.option("--callback-url", metavar="URL", help="Who is told of its end, instead of SWATH_WEBHOOK_URL."),
    click.option("--json", "as_json", is_flag=True, help="Print the job's status as JSON at the end."),
    click.option("--quiet", is_flag=True, help="No progress."),
)


def _pairs(given: tuple[str, ...], option: str, form: str = "KEY=VALUE") -> dict[str, str]:
    pairs = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not (key and equals and value):
            raise BadInput(f"{option} {text}: write it as {form}")
        pairs[key] = value
    return pairs
