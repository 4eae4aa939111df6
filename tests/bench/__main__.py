"""Runs the benchmarks: `python -m tests.bench [NAME...] [--pages FILE]`."""

from __future__ import annotations

from pathlib import Path

import click

NAMES = ("text", "index", "pages", "commands", "latency", "service")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@click.option("--pages", "file", type=click.Path(path_type=Path, exists=True), help="News pages: JSONL, .xz, .gz.")
@click.option("--count", default=20_000, show_default=True, help="Pages taken from the file, or generated.")
@click.option("--size", default=1_000_000, show_default=True, help="index, pages: how many.")
@click.option("--rounds", default=9, show_default=True, help="text, commands: at most this many runs of each.")
@click.option("--repeat", default=4, show_default=True, help="service: feed the pages so often.")
@click.option("--partitions", default=1, show_default=True, help="service, latency: partitions.")
@click.option("--threads", default=1, show_default=True, help="service: threads that fingerprint.")
@click.option("--seconds", default=20, show_default=True, help="latency: how long to send pages.")
@click.option("--rate", default=300, show_default=True, help="latency: pages a second.")
def main(
    names: tuple[str, ...],
    file: Path | None,
    count: int,
    **options: int,
) -> None:
    """Run all benchmarks, or those named. Answers are checked before a clock starts; ratios are of one run.

    Without --pages the pages are made of the bundled ones' sentences.
    """
    from tests.bench import measure

    pages = measure.load(file, count)
    texts = sum(len(page["text"].encode()) for page in pages)
    print(f"{len(pages):,} pages, {texts / len(pages):,.0f} bytes each, from {file.name if file else 'the demo'}")
    for name in names or NAMES:
        _run(name, pages, options)


def _run(name: str, pages: list[dict[str, str]], options: dict[str, int]) -> None:
    """Import and run one benchmark: one that is not run needs none of its peers."""
    if name == "text":
        from tests.bench import bench_text

        bench_text.run(pages, options["rounds"])
    elif name == "index":
        from tests.bench import bench_index

        bench_index.run(options["size"])
    elif name == "pages":
        from tests.bench import bench_pages

        bench_pages.run(options["size"])
    elif name == "commands":
        from tests.bench import bench_commands

        bench_commands.run(pages, options["rounds"])
    elif name == "latency":
        from tests.bench import latency

        paced = [f"--{name}={options[name]}" for name in ("rate", "seconds", "partitions")]
        latency.main(["--fingerprinters=1", *paced, f"--count={len(pages)}"], standalone_mode=False)
    else:
        from tests.bench import bench_service

        flags = ["--threads", str(options["threads"])]
        bench_service.run(pages, options["repeat"], options["partitions"], flags)


if __name__ == "__main__":
    main()
