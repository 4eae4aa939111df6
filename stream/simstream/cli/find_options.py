"""Parses options and input of `find-all` and `find-clusters`, and sets exit codes, as simhash-cpp does."""

from __future__ import annotations

import getopt
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

import click

from simstream.amounts import say_count
from simstream.cli.output import written
from simstream.cli.progress import counting, say
from simstream.errors import InputMissing, UsageError

if TYPE_CHECKING:
    from simstream.model import U64

BAD_OPTION, NO_BLOCKS, NO_DISTANCE, NO_INPUT, NO_OUTPUT, FEW_BLOCKS, UNREADABLE, UNWRITABLE = range(1, 9)
"""The exit codes. A line that is not a number ends with 1, and so do more than 64 blocks."""
MAX_BLOCKS: Final = 64
USAGE: Final = """\
  -b, --blocks BLOCKS        More than DISTANCE, at most 64; does not change the result
  -d, --distance DISTANCE    Greatest number of bits that differ
  -i, --input INPUT          A file, or - for stdin
  -o, --output OUTPUT        A file, or - for stdout
  -h, --help                 Show this page

Exit codes:
  1  bad option or line
  2  no blocks
  3  no distance
  4  no input
  5  no output
  6  blocks not more than distance
  7  input cannot be read
  8  output cannot be written"""
"""The options' help of both commands."""
_NAMES: Final = {"i": "input", "o": "output", "b": "blocks", "d": "distance", "h": "help"}
_LONG: Final = ("input=", "output=", "blocks=", "distance=", "help")
_UNSIGNED: Final = re.compile(r"\s*\+?([0-9]+)")

Lines = Callable[["U64", int, Callable[[int], None]], Iterable[bytes]]
"""Makes the output from a distinct ascending column and a distance; the third argument hears of the progress."""


@dataclass(slots=True)
class FindRequest:
    """The options of a command line."""

    input: str = ""
    output: str = ""
    blocks: int = 0
    distance: int = 0
    help: bool = False


class FindCommand(click.Command):
    """Passes its arguments on unchanged: these two commands read them as GNU getopt does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.params = {"arguments": tuple(args)}
        return []


def parse(arguments: Sequence[str]) -> FindRequest:
    """Return the options of a command line, the last of each kind. Other arguments are ignored.

    As with GNU getopt, `--bl 5`, `--blocks=5`, `-b5` and `-b 5` are the same. Arguments after --help are ignored.
    Raises getopt.GetoptError for an option that is unknown or has no value.
    """
    wish = FindRequest()
    for name, value in _options(arguments):
        if name == "help":
            wish.help = True
        elif name in ("blocks", "distance"):
            found = _UNSIGNED.match(value)
            setattr(wish, name, int(found[1][:20]) if found else 0)
        else:
            setattr(wish, name, value)
    return wish


def refusal(wish: FindRequest) -> tuple[int, str] | None:
    """Return the exit code and the reason if the request is invalid, else None."""
    if wish.blocks == 0:
        return NO_BLOCKS, "--blocks must be given, and more than 0"
    if wish.distance == 0:
        return NO_DISTANCE, "--distance must be given, and more than 0"
    if not wish.input:
        return NO_INPUT, "--input must be given: a file, or - for stdin"
    if not wish.output:
        return NO_OUTPUT, "--output must be given: a file, or - for stdout"
    if wish.blocks <= wish.distance:
        return FEW_BLOCKS, f"--blocks ({wish.blocks}) must be more than --distance ({wish.distance})"
    if wish.blocks > MAX_BLOCKS:
        return BAD_OPTION, f"--blocks ({wish.blocks}) must be at most {MAX_BLOCKS}"
    return None


def find(arguments: Sequence[str], usage: str, title: str, lines: Lines) -> int:
    """Run one of the two commands and return its exit code. `usage`: the first part of its help."""
    try:
        wish = parse(arguments)
    except getopt.GetoptError as error:
        return _fail(BAD_OPTION, str(error))
    if wish.help:
        click.echo(f"{usage}\n{USAGE}")
        return 0
    if refused := refusal(wish):
        return _fail(*refused)
    try:
        source = opened(wish.input)
    except InputMissing as error:
        return _fail(UNREADABLE, str(error))
    with source as handle:
        column = _column(handle, wish.input)
    try:
        with written(wish.output, [wish.input]) as out, counting(title, len(column)) as heard:
            _write(out, lines(column, wish.distance, heard))
    except UsageError as error:
        return _fail(UNWRITABLE, str(error))
    return 0


def _write(out: IO[bytes], lines: Iterable[bytes]) -> None:
    number = 0
    for part in lines:
        out.write(part)
        number += part.count(b"\n")
    out.flush()
    say(f"{say_count(number, 'line')} written")


def _column(handle: IO[bytes], name: str) -> U64:
    from simstream.tools.find.lists import read_fingerprints
    from simstream.tools.find.pairs import distinct

    with counting("reading") as heard:
        values = read_fingerprints(handle, "stdin" if name == "-" else name, heard)
    column = distinct(values)
    say(f"{say_count(len(values), 'fingerprint')} read, {len(column):,} of them distinct")
    return column


def opened(name: str) -> AbstractContextManager[IO[bytes]]:
    """Return a file to read, unpacked according to its ending, or stdin for `-`. Raises InputMissing."""
    if name == "-":
        from simstream.sources.lines import standard_input, unpacked

        return nullcontext(unpacked(standard_input(), name))
    try:
        if os.path.isdir(name):
            raise IsADirectoryError(0, "it is a folder")
        return _unpacked(open(name, "rb", buffering=0), name)
    except OSError as error:
        raise InputMissing(f"{name} cannot be read ({error.strerror})", "check the path") from error


@contextmanager
def _unpacked(handle: IO[bytes], name: str) -> Iterator[IO[bytes]]:
    from simstream.sources.lines import CountedFile, unpacked

    with handle, unpacked(CountedFile(handle), name) as source:
        yield source


def _options(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Return the name and the value of each option, up to the first -h or --help."""
    to_help = [
        [*arguments[:at], argument if argument.startswith("--") else "-h"]
        for at, argument in enumerate(arguments)
        if argument.startswith(("-h", "--h"))
    ]
    for part in (*to_help, arguments):
        found, _ = getopt.gnu_getopt(part, "i:o:b:d:h", _LONG)
        options = [(_NAMES[option.lstrip("-")[0]], value) for option, value in found]
        if ("help", "") in options:
            break
    return options


def _fail(code: int, why: str) -> int:
    say(why)
    return code


def as_command(name: str, **options: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Return `click.command` for one of the two."""
    return click.command(name, cls=FindCommand, add_help_option=False, **options)
