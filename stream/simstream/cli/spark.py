"""`simstream spark`: match and cluster a large collection with Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simstream.cli.options import (
    RECIPE_HELP,
    RECIPE_METAVAR,
    field_options,
    make_fingerprinter,
    policy_of,
    settings_options,
    settle,
    similarity_option,
    versions_option,
)
from simstream.cli.progress import say
from simstream.errors import InputError


def _print_program(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(Path(__file__).with_name("spark_submit.py"))
        context.exit()


@click.command("spark")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option(
    "-o",
    "--output",
    metavar="FOLDER",
    required=True,
    help="Write pages, matches and clusters to FOLDER as Parquet.",
)
@click.option(
    "--program",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_program,
    help="Print the path of the program to give to spark-submit, and do nothing else.",
)
@click.option("--master", metavar="URL", help="Spark's master (default: that of spark-submit, else local[*]).")
@click.option("--recipe", metavar=RECIPE_METAVAR, help=RECIPE_HELP)
@click.option("--distance", metavar="K", help="Greatest Hamming distance of a match (default: the recipe's).")
@similarity_option
@versions_option
@field_options
@settings_options
def command(
    inputs: tuple[str, ...],
    output: str,
    master: str | None,
    versions: bool,
    text_field: str | None,
    id_field: str | None,
    config: str | None,
    **flags: Any,
) -> None:
    """Compare all pages of INPUT... with one another, on a Spark cluster or on the cores of this machine.

    INPUT is as for `dedup`, but not -. All machines must be able to open the paths. One file is one task.
    See docs/how-to/spark.md.
    """
    settings = settle(config, **flags)
    from simstream.sources.fields import FieldNames
    from simstream.sources.input_files import files_of
    from simstream.spark.fingerprints import FingerprintTask
    from simstream.spark.job import FOLDERS, SparkComparison
    from simstream.spark.places import check_inputs
    from simstream.spark.session import session

    files = files_of(inputs)
    check_inputs(files, output, FOLDERS)  # before Spark starts
    with make_fingerprinter(settings, say, workers=0) as made:
        recipe = made.recipe
        policy = policy_of(settings, recipe, made.recipe_id)
    printing = FingerprintTask(
        recipe,
        policy.short_words,
        str(settings.cache_folder),
        settings.max_record_bytes,
        settings.extract.timeout_s,
        settings.extract.memory_bytes,
        FieldNames(text_field, id_field),
        versions,
    )
    with session(master) as spark:
        found = SparkComparison(spark, printing, policy).run(files, output)
    say(
        f"{found.pages:,} pages, {found.compared:,} of them compared: {found.matches:,} matches, "
        f"{found.clusters:,} clusters in {output}"
    )
    if found.troubles:
        raise InputError("; ".join(found.troubles[:20]), "get these files again; all other pages were compared")
