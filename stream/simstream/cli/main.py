"""Starts each command: lists the commands, and prints an error as one line with an exit code.

Nothing heavy is imported here: `simstream --help` must answer at once.
"""

from __future__ import annotations

import atexit
import codecs
import importlib
import io
import os
import signal
import sys
import threading
from contextlib import suppress
from functools import partial
from typing import Any

import click

from simstream import __version__
from simstream.cli.checked_writer import CheckedWriter, ReaderGoneError
from simstream.errors import OutputError, SimstreamError, UsageError
from simstream.interrupts import is_interrupt, keep_interrupts, leave_interrupts
from simstream.terminal import printable

COMMANDS = {
    "demo": "Run the whole service on a local log, over bundled pages or yours.",
    "dedup": "Write one verdict for each page of files, without a broker.",
    "serve": "Run the service: fingerprint pages, judge them, publish verdicts.",
    "topics": "Create the topics that the service needs.",
    "feed": "Send pages from files to the topic `pages`.",
    "verdicts": "Show verdicts as a table or as JSON lines.",
    "patterns": "Learn from verdicts which parts of addresses make no other page.",
    "news": "Show stories on a web page that updates live, one card a cluster.",
    "explain": "Explain a page's verdict: words, candidates, rules, texts.",
    "fingerprint": "Print each page's fingerprint.",
    "tokens": "Show how a text is cut into tokens, or its words with weights.",
    "find-all": "Find all near pairs of a list of fingerprints, as simhash-cpp does.",
    "find-clusters": "Find all clusters of a list of fingerprints, as simhash-cpp does.",
    "find-near": "Find the fingerprints of one list that have a match in another.",
    "plan": "Show table designs for a size, a distance and a memory, with costs.",
    "evaluate": "Measure what recipes find and what they confuse, with pictures.",
    "train-idf": "Make an IDF table, which weighs words, from your own pages.",
    "match": "Ask a running service which live pages a text matches.",
    "spark": "Match and cluster a large collection, on a Spark cluster or all cores.",
    "status": "Show which role waits for what, and what needs a person.",
    "state": "Show, verify or upgrade a state folder.",
    "source": "Close a gap between the source and the log.",
    "dead-letters": "Show pages that could not be read, and send them again.",
    "replay": "Judge the log again under another policy, and show what changes.",
    "config": "Show every setting and where its value came from.",
}


LEAVING_S = 10.0
"""Seconds that Python's own end may take. It waits for threads, also for one that waits for a disk that hangs."""
_NO_ROOM = ("failed to map segment from shared object", "can't start new thread")
"""What the loader says of a library for which the address space has no room, and Python of a thread."""
_PATH_METAVARS = ("FILE", "DIR", "FOLDER", "OLD", "NEW", "INPUT", "VERDICTS")
"""The metavars of options and arguments that are paths."""


class _PathName(click.ParamType):  # type: ignore[type-arg]  # click 8.1 has no arguments for it
    """A path on the command line; not the empty text, which would name the current folder, or no file."""

    name = "path"

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "" and param is not None:
            shown = " / ".join(param.opts) if isinstance(param, click.Option) else _metavar_of(param)
            raise UsageError(
                f"{shown} is empty", "name a file or a folder; if a shell variable names it, the variable is empty"
            )
        return self._inner.convert(value, param, ctx)


def _metavar_of(param: click.Parameter) -> str:
    return (param.metavar or "").strip("[].")


def _refuse_empty_paths(command: click.Command) -> None:
    for param in command.params:
        if _metavar_of(param) in _PATH_METAVARS and not isinstance(param.type, _PathName):
            param.type = _PathName(param.type)
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        _refuse_empty_paths(inner)


class LazyCommandGroup(click.Group):
    """A group that imports a command's file when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"simstream.cli.{cmd_name.replace('-', '_')}").command
        _refuse_empty_paths(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyCommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="simstream", message="%(prog)s %(version)s")
def main() -> None:
    """Tell near-duplicate web pages apart from new ones: one verdict a page.

    Every command takes --debug, which prints the traceback of an error.
    """


def run() -> None:
    """Run the command `simstream`.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 141 the reader of stdout went away.
    """
    keep_interrupts()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads for matrices spin and have no work
    _open_standard_streams()
    _name_stdout_in_errors()
    codes: list[int] = []
    atexit.register(partial(_leave, codes))  # the first to be registered is the last to be called
    codes.append(invoke(sys.argv[1:]))
    leave_interrupts()
    deadline = threading.Timer(LEAVING_S, _leave, [codes])
    deadline.daemon = True
    with suppress(RuntimeError, MemoryError):  # the system gives no more threads
        deadline.start()
    sys.exit(codes[0])


def _open_standard_streams() -> None:
    """Open the standard streams that this process was started without, as by `2>&-`.

    Else the first file that is opened would get their number. What is written to stderr is dropped. Writing to
    stdout is an error, as for any program.
    """
    for number, name, mode in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, mode)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115  # open to the end


def _name_stdout_in_errors() -> None:
    """Replace `sys.stdout` by a stream like it, whose errors name it.

    A character that an encoding other than UTF-8 lacks is written as an escape, such as \\u2192, unless the user
    chose another way.
    """
    given: Any = sys.stdout
    raw = CheckedWriter(io.FileIO(given.fileno(), "w", closefd=False), "-")
    buffer: Any = raw if given.write_through else io.BufferedWriter(raw)
    chosen = given.errors not in ("strict", "surrogateescape") or codecs.lookup(given.encoding).name == "utf-8"
    errors = given.errors if chosen else "backslashreplace"
    sys.stdout = io.TextIOWrapper(buffer, given.encoding, errors, None, given.line_buffering, given.write_through)


def _leave(codes: list[int]) -> None:
    """End the process without the end of its libraries, after all that Python itself has to do.

    A Kafka client's threads may still use OpenSSL, which the C library's exit would take from under them: a
    signal would end one process in a hundred that a broker refuses.
    """
    if codes:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, OutputError, ReaderGoneError):  # it is closed, or takes no more
                codes[0] = codes[0] or 1
        os._exit(codes[0])


def invoke(arguments: list[str]) -> int:
    """Run one command line and return its exit code. An error is one line on stderr."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        colours = False if _refuses_colours() else None  # None: if stdout is a terminal
        result: Any = main.main(args=arguments, prog_name="simstream", standalone_mode=False, color=colours)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        return _fail(error.format_message().rstrip("."), _advice(error), 2, debug)
    except SimstreamError as error:
        return _fail(error.what, error.todo, error.exit_code, debug)
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted", "", 130, debug=False)
    except ReaderGoneError:  # there is nothing to report
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        return _fail(
            f"the system refused: {error.strerror or error}{place}",
            "make room, or check the permissions",
            1,
            debug,
        )
    except Exception as error:  # noqa: BLE001  # the last line of defence: no traceback unless asked for
        if is_interrupt(error):
            return _fail("interrupted", "", 130, debug=False)
        if isinstance(error, MemoryError) or str(error).endswith(_NO_ROOM):
            what = "the system gives no more memory or threads"
            return _fail(
                what, "raise the container's limits of memory and pids, `ulimit -v` or `ulimit -u`", 1, debug
            )
        return _fail(
            f"{type(error).__name__}: {str(error)[:200]}", "run again with --debug and report it", 1, debug
        )
    return result if isinstance(result, int) else 0


def _refuses_colours() -> bool:
    """Return whether the user or the terminal wants plain text, as rich decides it."""
    return os.environ.get("NO_COLOR", "") != "" or os.environ.get("TERM", "").lower() in ("dumb", "unknown")


def _advice(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    if context is None:
        return "see `simstream --help`"
    has_text = any(param.name == "text" for param in context.command.params)
    quotes = "put the text in quotes, or " if has_text and "extra argument" in error.message else ""
    return f"{quotes}see `{context.command_path} --help`"


def _fail(what: str, todo: str, code: int, debug: bool) -> int:
    """Print the error that is being handled as one line, below what the command has shown. Returns the code."""
    import traceback

    if debug:
        traceback.print_exc()
    error = sys.exception()
    while error is not None:  # a command's frames hold a bar, which would be drawn again below the line
        traceback.clear_frames(error.__traceback__)
        error = error.__context__
    line = " ".join(f"simstream: {what}{': ' + todo if todo else ''}".split())
    click.echo(printable(line), err=True)
    return code
