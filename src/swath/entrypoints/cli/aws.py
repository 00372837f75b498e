"""The commands of `swath aws`. Their bodies, which need the AWS libraries, are imported when they are called."""

from __future__ import annotations

import click

from swath.domain.errors import BadInput
from swath.entrypoints.cli.options import json_option
from swath.entrypoints.cli.runtime import begin, run_async
from swath.settings import Settings

__all__ = ["aws"]


@click.group()
def aws() -> None:
    """Set up, look at and remove what Swath keeps on AWS."""


def _settings() -> Settings:
    """Raises BadInput when nothing is on AWS, UserError when its libraries are not installed."""
    from swath.bootstrap.services import require_aws

    settings = begin()
    if not settings.places.uses_aws:
        raise BadInput("nothing is on AWS: set SWATH_STORE=dynamodb://TABLE and SWATH_RESULTS=s3://BUCKET/PREFIX")
    require_aws()
    return settings


@aws.command()
@click.option("--recovery", is_flag=True, help="The table can be put back to any second of the last 35 days; costs.")
@click.option("--create-bucket", is_flag=True, help="Make the bucket if it is not there.")
@json_option
def init(recovery: bool, create_bucket: bool, as_json: bool) -> int:
    """Make the table and the queues if they are missing, and try whether results can be written. May be repeated."""
    settings = _settings()
    from swath.entrypoints.cli.aws_resources import create_resources

    return run_async(create_resources(settings, recovery=recovery, create_bucket=create_bucket, as_json=as_json))


@aws.command()
@json_option
def status(as_json: bool) -> int:
    """Show how table, queues and results stand, what waits, and what it costs. Exits 1 if something is wrong."""
    settings = _settings()
    from swath.entrypoints.cli.aws_resources import show_status

    return run_async(show_status(settings, as_json=as_json))


@aws.command()
@click.option("--yes", "said", metavar="NAME", help="Do not ask: the name of the table, to be sure.")
@click.option("--results", is_flag=True, help="Remove everything under the prefix of the results too.")
@json_option
def destroy(said: str | None, results: bool, as_json: bool) -> int:
    """Remove the table with all jobs in it, and the queues. Asks for the table's name first."""
    settings = _settings()
    from swath.entrypoints.cli.aws_resources import destroy_resources

    return run_async(destroy_resources(settings, said, results=results, as_json=as_json))
