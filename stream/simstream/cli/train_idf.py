"""`simstream train-idf`: make an IDF table from pages, in jieba's format."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simstream.amounts import nbytes, say_count, say_pages
from simstream.cli.options import field_options, make_fingerprinter, recipe_option, settle_on_all_cores
from simstream.cli.output import refuse_compressed, refuse_input, written
from simstream.cli.progress import say, with_progress
from simstream.errors import InputError, UsageError
from simstream.processors import cores
from simstream.settings import duration_ms

if TYPE_CHECKING:
    from simstream.text.fingerprinter import Fingerprinter
    from simstream.tools.train_idf.state import TrainingFolder
    from simstream.tools.train_idf.training import TrainingOptions, TrainingRun


@click.command("train-idf")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    help="Write the table to FILE; FILE.state keeps the progress until it is done.",
)
@click.option(
    "--min-pages",
    type=click.IntRange(min=1),
    metavar="N",
    default=2,
    show_default=True,
    help="Leave out words that are on fewer pages.",
)
@click.option("--resume", is_flag=True, help="Continue an interrupted training of FILE.")
@click.option(
    "--memory",
    default="512MB",
    show_default=True,
    metavar="SIZE",
    help="Memory for counts, such as 2GB (a bare number is bytes); the rest is on disk.",
)
@click.option(
    "--save-every", default="20s", show_default=True, metavar="TIME", help="How often FILE.state is written."
)
@field_options
@recipe_option
def command(
    inputs: tuple[str, ...],
    output: str,
    min_pages: int,
    resume: bool,
    memory: str,
    save_every: str,
    text_field: str | None,
    id_field: str | None,
    config: str | None,
    **flags: Any,
) -> None:
    """Write how rare each word is in the pages of INPUT...: one line `word idf` each, as jieba reads it.

    idf is ln((N + 1) / (n + 1)) for a word on n of N pages. The recipe cuts the words. Pages of too few words do
    not count. The result does not depend on memory, cores or interruptions.
    """
    settings = settle_on_all_cores(config, **flags)
    options = _options(memory, save_every)
    if os.path.isdir(output):
        raise UsageError(f"{output} is a folder", "name a file with -o")
    refuse_compressed(output, "a recipe")
    from simstream.sources.fields import FieldNames
    from simstream.sources.input_files import files_of
    from simstream.sources.read import size_of
    from simstream.tools.train_idf.state import TrainingFolder

    size_of(inputs)
    refuse_input(output, [file.path for file in files_of(inputs)])
    with (
        make_fingerprinter(settings, say) as fingerprinter,
        TrainingFolder(Path(output), resume=resume) as folder,
    ):
        try:
            training = _training(fingerprinter, folder, options, settings.max_record_bytes)
            fields = FieldNames(text_field, id_field)
            training.run(with_progress(inputs, settings.max_record_bytes, "counting", fields, forgiving=True))
            words = _write(training, min_pages, output, inputs) if training.pages else 0
        except (KeyboardInterrupt, InputError):
            say(f"{folder.path} keeps the counts: add --resume to continue")
            raise
        folder.remove()
        training.unread.report(say)
        if not training.pages:
            raise InputError(
                f"no page of the input has {fingerprinter.recipe.min_words} distinct words",
                "give pages with more text",
            )
    say(f"{say_count(words, 'word')} of {say_pages(training.pages)} in {output}")
    say(how_to_use(output, settings.recipe))


def how_to_use(output: str, recipe: str) -> str:
    """Say how to use a table. `recipe`: the preset or file that cut its words."""
    from simstream.text.recipe import PRESETS

    known = recipe in PRESETS
    file = Path(output).with_suffix(".toml") if known else Path(recipe)
    says = {"base": recipe} if known and recipe != "default" else {}
    says |= {"weights": "file", "idf_file": os.path.relpath(output, file.parent)}
    lines = "".join(f"\n    {name} = {json.dumps(value, ensure_ascii=False)}" for name, value in says.items())
    return f"to use it, write in the recipe file {file}{lines}\nand give --recipe {file}"


def _training(
    fingerprinter: Fingerprinter, folder: TrainingFolder, options: TrainingOptions, max_record_bytes: int
) -> TrainingRun:
    from simstream.tools.train_idf.training import TrainingRun
    from simstream.wire.page import PageLimits

    training = TrainingRun(fingerprinter, folder, PageLimits(max_record_bytes=max_record_bytes), options)
    if training.records:
        say(f"continues after {training.records:,} pages of the input")
    return training


def _write(training: TrainingRun, min_pages: int, output: str, inputs: tuple[str, ...]) -> int:
    """Write the table. Returns its number of words."""
    from simstream.tools.train_idf.weights import lines

    words = 0
    with written(output, inputs) as out:
        for line in lines(training.rows(), training.pages, min_pages):
            out.write(line)
            words += 1
        if not words:
            what = f"no word is on {min_pages} of {training.pages:,} pages"
            raise UsageError(what, "add --resume and a smaller --min-pages")
    return words


def _options(memory: str, save_every: str) -> TrainingOptions:
    from simstream.tools.train_idf.training import TrainingOptions

    seconds = duration_ms("--save-every", save_every) / 1000
    return TrainingOptions(nbytes("--memory", memory), cores(), seconds)
