"""`simstream explain`: why a page got its verdict."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from simstream.cli.file_distance import settle_for_files, with_auto_distance
from simstream.cli.options import (
    COUNT,
    field_options,
    judging_options,
    log_options,
    make_deduper,
    open_log,
    settle_on_all_cores,
    versions_option,
)
from simstream.cli.output import print_json
from simstream.cli.progress import counting, with_progress
from simstream.errors import BrokerUnreachable, PageUnknown, UsageError, WrongVerdict

if TYPE_CHECKING:
    from simstream.model import Record
    from simstream.settings import Settings
    from simstream.sources.fields import FieldNames
    from simstream.tools.explain.from_files import Records
    from simstream.tools.explain.request import ExplainAnswer, ExplainRequest

MAX_SHOWN = 20
"""The number of words and of candidates that are printed by default."""
_STDIN = "-"


class FileInputs(NamedTuple):
    """The files that are judged instead of a log. With `versions`, pages of one id are versions of one page."""

    inputs: Sequence[str]
    max_record_bytes: int
    versions: bool
    fields: FieldNames


@click.command("explain")
@click.argument("ids", nargs=-1, metavar="ID...")
@click.option(
    "-i", "--input", "inputs", multiple=True, metavar="INPUT", help="Judge the pages of files, as `dedup` does."
)
@click.option("--ordinal", type=COUNT, metavar="N", help="Explain the verdict with this ordinal.")
@click.option("--diff", is_flag=True, help="Show the texts of the page and of its nearest page side by side.")
@click.option("--with", "beside", metavar="ID", help="Compare with the page ID, near or not; also for --diff.")
@click.option(
    "--words", type=COUNT, metavar="N", help=f"Show the N heaviest words (default: {MAX_SHOWN}; in JSON all)."
)
@click.option(
    "--candidates",
    type=COUNT,
    metavar="N",
    help=f"Show the N closest candidates (default: {MAX_SHOWN}; in JSON all).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a page.")
@click.option("--threads", metavar="N", help="Fingerprint files in N threads (default: one for each core).")
@log_options
@versions_option
@field_options
@judging_options
def command(
    ids: tuple[str, ...],
    inputs: tuple[str, ...],
    versions: bool,
    text_field: str | None,
    id_field: str | None,
    config: str | None,
    **flags: Any,
) -> None:
    """Explain the verdicts of the pages ID...: words, candidates, and the rule that decided.

    Judges the log again up to each page, and needs the flags that `serve` has. With -i, judges files as `dedup`
    does: name all files that `dedup` read, those of --against first. Changes nothing, and joins no consumer group.
    """
    ordinal, diff, beside, as_json = (flags.pop(name) for name in ("ordinal", "diff", "beside", "as_json"))
    counts = [flags.pop(name) for name in ("words", "candidates")]
    _check(ids, inputs, ordinal, flags["log"] or flags["bootstrap_servers"])
    if not inputs and (text_field or id_field):
        raise UsageError(
            "--text-field and --id-field are for files", "set [fields] for a log, or name files with -i"
        )
    settings = _settle(config, inputs, flags)
    from simstream.sources.fields import FieldNames
    from simstream.tools.explain.request import ExplainRequest

    words, candidates = (MAX_SHOWN if count is None and not as_json else count for count in counts)
    request = ExplainRequest(tuple(dict.fromkeys(ids)), ordinal, beside, words, candidates, diff)
    files = FileInputs(inputs, settings.max_record_bytes, versions, FieldNames(text_field, id_field))
    answer = _answer(settings, files, request)
    _show(answer, as_json, diff)
    _complain(answer)


def _check(ids: Sequence[str], inputs: Sequence[str], ordinal: int | None, log: str | None) -> None:
    if not ids and ordinal is None:
        raise UsageError("no page was named", "give the page's ID, or --ordinal N")
    if ordinal is not None and len(ids) > 1:
        raise UsageError(
            f"--ordinal names one page, and {len(ids)} IDs are given", "give at most one ID with --ordinal"
        )
    if inputs and log is not None:
        raise UsageError("both --input and --log were given", "give one of them")


def _settle(config: str | None, inputs: Sequence[str], flags: Mapping[str, Any]) -> Settings:
    """Return the settings; for files with the distance that `dedup` has.

    Raises SettingsError and InputMissing, and UsageError for an input that cannot be read twice.
    """
    if not inputs:
        return settle_on_all_cores(config, **flags)
    from simstream.sources.input_files import files_of, refuse_single_pass
    from simstream.sources.read import size_of

    files = files_of([path for path in inputs if path != _STDIN])
    refuse_single_pass(files, "--input reads its files several times")  # an error comes before anything is built
    settings, automatic = settle_for_files(config, flags)
    return with_auto_distance(settings, size_of(inputs)) if automatic else settings


def _answer(settings: Settings, files: FileInputs, request: ExplainRequest) -> ExplainAnswer:
    from simstream.registry.schemas import limits_of
    from simstream.tools.explain.explainer import Explainer
    from simstream.tools.explain.from_files import FileHistory
    from simstream.tools.explain.from_log import LogHistory
    from simstream.wire.page import PageLimits

    with make_deduper(settings) as deduper:
        limits = PageLimits(settings.max_record_bytes) if files.inputs else limits_of(settings)
        explainer = Explainer(deduper.fingerprinter, deduper.policy, limits)
        if not files.inputs:
            with _for_files_name_them(), open_log(settings) as log:
                history = LogHistory(log, deduper.policy, deduper.fingerprinter.recipe, limits, counting)
                return explainer.explain(history, request)
        with _again_and_again(files) as records:
            return explainer.explain(FileHistory(deduper, records, settings.threads), request)


@contextmanager
def _for_files_name_them() -> Iterator[None]:
    """Say how to explain the verdicts of files, if no broker answers."""
    try:
        yield
    except BrokerUnreachable as error:
        raise BrokerUnreachable(error.what, f"{error.todo}; verdicts of files need -i FILE") from error


@contextmanager
def _again_and_again(files: FileInputs) -> Iterator[Records]:
    """Return a function that reads the inputs, as often as it is called. A temporary file keeps standard input."""
    from simstream.sources.file_pages import jsonl_records
    from simstream.sources.lines import standard_input, unpacked
    from simstream.sources.read import read_pages
    from simstream.sources.repeated_names import PageNames

    inputs, max_record_bytes, versions, fields = files
    with tempfile.TemporaryFile(prefix="simstream-stdin-") as kept:
        if _STDIN in inputs:
            shutil.copyfileobj(unpacked(standard_input(), _STDIN), kept)

        def with_stdin() -> Iterator[Record]:
            for path in inputs:
                if path == _STDIN:
                    kept.seek(0)
                    yield from jsonl_records(kept, _STDIN, max_record_bytes, fields)
                else:
                    yield from read_pages([path], max_record_bytes, fields, forgiving=True)

        def records(title: str) -> Iterable[Record]:
            shown = with_progress(inputs, max_record_bytes, title, fields, transient=True, forgiving=True)
            read = with_stdin() if _STDIN in inputs else shown
            return read if versions else PageNames().separate(read)

        yield records


def _show(answer: ExplainAnswer, as_json: bool, diff: bool) -> None:
    from simstream.cli.explain_text import printed

    for number, explanation in enumerate(answer.explanations):
        if as_json:
            print_json(explanation)
        else:
            printed(explanation, first=number == 0, diff=diff)


def _complain(answer: ExplainAnswer) -> None:
    """Raise WrongVerdict if the log does not give a published verdict, else PageUnknown for missing pages."""
    wrong = [explanation.id for explanation in answer.explanations if explanation.agrees is False]
    if wrong:
        raise WrongVerdict(
            f"the log does not give the verdict that was published for {', '.join(wrong)}",
            "keep the log, and report both verdicts as a bug",
        )
    if len(answer.unknown) == 1:
        raise answer.unknown[0]
    if answer.unknown:
        each = "; ".join(f"{error.what} ({error.todo})" for error in answer.unknown)
        raise PageUnknown(each, "see above for the other pages" if answer.explanations else "check the IDs")
