"""`simstream dedup`: one verdict for each page of files, in order, without a broker."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from stream.cli.options import judging_options, make_deduper, settle
from stream.cli.output import written
from stream.cli.progress import say, with_progress


@click.command("dedup")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("-o", "--output", metavar="FILE", default="-", help="Where the JSON lines go (default: stdout).")
@click.option("--threads", metavar="N", help="Threads that fingerprint (default: 2).")
@judging_options
def command(inputs: tuple[str, ...], output: str, config: str | None, **flags: Any) -> None:
    """One JSON verdict for each page of INPUT..., in input order.

    INPUT is JSONL (.jsonl, also .gz .xz .zst; - is stdin), an HTML file, or a folder of HTML files.
    """
    settings = settle(config, **flags)
    from stream.sources.read import size_of
    from stream.wire import verdict as wire

    size_of(inputs)  # an input that cannot be read is said before anything is built
    kinds: Counter[str] = Counter()
    with make_deduper(settings) as deduper, written(output, inputs) as out:
        records = with_progress(inputs, settings.max_record_bytes, "judging")
        for verdict in deduper.stream(records, threads=settings.threads):
            out.write(wire.encode(verdict) + b"\n")
            kinds[verdict.verdict] += 1
    if output != "-":
        counts = ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common())
        say(f"{kinds.total():,} verdicts in {output}: {counts or 'no page'}")
