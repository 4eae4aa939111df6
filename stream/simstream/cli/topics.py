"""`simstream topics create`: create the topics with the right settings."""

from __future__ import annotations

from typing import Any

import click

from simstream.cli.options import log_options, open_log, settings_options, settle
from simstream.cli.progress import say

KAFKA_PARTITIONS = 8
SHARDS = tuple(str(1 << bits) for bits in range(9))
"""The possible numbers of shards: the powers of two up to `MAX_SHARDS` of index/shard."""


@click.group("topics")
def command() -> None:
    """Create the topics that the service needs."""


@command.command("create")
@click.option(
    "--partitions",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="Partitions of pages, and of verdicts without --verdict-partitions (default: "
    f"{KAFKA_PARTITIONS} on Kafka, 1 in a directory).",
)
@click.option(
    "--verdict-partitions",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="Partitions of verdicts (default: as many as pages have). With 4, verdicts come sooner than with 16.",
)
@click.option(
    "--shards",
    type=click.Choice(SHARDS),
    metavar="N",
    help=f"Also create the topic of answers, for N shards: a power of two, 1 to {SHARDS[-1]}.",
)
@click.option("--matches", metavar="NAME", help="Last part of the name of the topic of answers (default: matches).")
@log_options
@settings_options
def create(
    partitions: int | None, verdict_partitions: int | None, shards: str | None, config: str | None, **flags: Any
) -> int:
    """Create the missing topics. Never changes an existing topic: prints what differs, and then ends with 1."""
    with open_log(settle(config, **flags)) as log:
        reports = log.create_topics(partitions, int(shards) if shards else None, verdict_partitions)
    for report in reports:
        word = "created" if report.created else "differs" if report.differs else "exists"
        click.echo(f"{word:<7}  {report.name}" + "".join(f"\n         {text}" for text in report.differs))
    if not any(report.differs for report in reports):
        return 0
    say("what differs stays as it is: choose another --prefix or, on Kafka, change it with Kafka's tools")
    return 1
