"""`simstream fingerprint`: each page's fingerprint and id."""

from __future__ import annotations

from typing import Any

import click

from simstream.cli.options import field_options, make_fingerprinter, recipe_option, settle
from simstream.cli.progress import say, with_progress
from simstream.errors import UsageError
from simstream.terminal import printable


@click.command("fingerprint")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option(
    "--bits", is_flag=True, help="Print 64 characters 0 and 1 for a fingerprint instead of 16 hex digits."
)
@click.option(
    "--decimal",
    is_flag=True,
    help="Print decimal numbers, as find-all reads them; skip pages without a fingerprint.",
)
@field_options
@recipe_option
def command(
    inputs: tuple[str, ...],
    bits: bool,
    decimal: bool,
    text_field: str | None,
    id_field: str | None,
    config: str | None,
    **flags: Any,
) -> None:
    """Print a line for each page of INPUT...: its fingerprint in hex, a tab, and its id.

    Hyphens stand for a page without a fingerprint.
    """
    if bits and decimal:
        raise UsageError("both --bits and --decimal were given", "give one of them")
    settings = settle(config, **flags)
    from simstream.deduper.fingerprinting import RecordFingerprinter
    from simstream.model import PageKind
    from simstream.sources.fields import FieldNames
    from simstream.sources.read import size_of

    size_of(inputs)
    records = with_progress(inputs, settings.max_record_bytes, "fingerprinting", FieldNames(text_field, id_field))
    with make_fingerprinter(settings, say) as fingerprinter:
        further = fingerprinter.recipe.fingerprints - 1
        if decimal and further:
            raise UsageError(
                f"the recipe {fingerprinter.recipe.name} has {further + 1} fingerprints a page",
                "leave --decimal out: find-all compares one number a page",
            )
        number = "d" if decimal else "064b" if bits else "016x"
        fingerprinted = RecordFingerprinter(fingerprinter, settings.max_record_bytes, timed=False)
        for batch in fingerprinted.batches(records, 1):
            columns = batch.columns
            prints = zip(columns.fingerprint.tolist(), *columns.sketch[:, :further].T.tolist(), strict=True)
            for page, values in zip(batch.pages, prints, strict=True):
                shown = "".join(format(value, number) for value in values)
                if page.kind != PageKind.READABLE:
                    if decimal:
                        continue  # find-all would take a hyphen for a sign
                    shown = "-" * len(shown)
                click.echo(f"{shown}\t{printable(page.id)}")
