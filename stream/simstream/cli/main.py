"""The entrance of the command line: the list of commands, and errors as one line with an exit code.

Nothing heavy is imported here: `simstream --help` must answer at once.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import Any

import click

from simstream import __version__
from simstream.errors import SimstreamError
from simstream.terminal import printable

COMMANDS = {
    "demo": "The whole service on a local log, over bundled pages or yours.",
    "dedup": "One verdict for each page of files, without a broker.",
    "serve": "The service: fingerprint pages, judge them, publish verdicts.",
    "topics": "Make the topics that the service needs.",
    "feed": "Send pages from files into the topic `pages`.",
    "verdicts": "Show verdicts as a table or as JSON lines.",
    "news": "A page of stories, one card a cluster, that updates live.",
    "explain": "Why a page got its verdict: words, candidates, rules, texts.",
    "fingerprint": "Print each page's fingerprint.",
    "tokens": "Show how text is cut into tokens, or words and their weights.",
    "find-all": "All near pairs of a list of fingerprints, as simhash-cpp does it.",
    "find-clusters": "All clusters of a list of fingerprints, likewise.",
    "find-near": "Which fingerprints of one list have a match in another, of any length.",
    "plan": "Table designs for a size, a distance and a memory, with their cost.",
    "evaluate": "What recipes find and what they confuse, with pictures.",
    "train-idf": "Make an IDF table, the words' weights, from your own pages.",
    "match": "Which live pages a text matches, asked of a running service.",
    "spark": "Matches and clusters of a large collection, on a Spark cluster or all cores.",
    "status": "Which role waits for what, and what needs a person.",
    "state": "What a state folder holds, and whether it is whole.",
    "source": "Mend a gap between the source and the log.",
    "dead-letters": "Show pages that could not be read, and send them again.",
    "replay": "The log judged again under another policy, and what that changes.",
    "config": "Show every setting and where its value came from.",
}


class Commands(click.Group):
    """A group whose commands live one in a file and are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"simstream.cli.{cmd_name.replace('-', '_')}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="simstream", message="%(prog)s %(version)s")
def main() -> None:
    """Tell near-duplicate web pages apart from new ones: one verdict a page.

    Any command takes --debug, for a traceback where something fails.
    """


def run() -> None:
    """What the command `simstream` calls: exit codes 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    sys.exit(invoke(sys.argv[1:]))


def invoke(arguments: list[str]) -> int:
    """Run one command line and return its exit code; an error is one line on stderr."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        result: Any = main.main(args=arguments, prog_name="simstream", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        return _fail(error.format_message().rstrip("."), _advice(error), 2, debug)
    except SimstreamError as error:
        return _fail(error.what, error.todo, error.exit_code, debug)
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted", "", 130, debug=False)
    except BrokenPipeError:
        # The reader of our output went away, as `head` does: nothing to report, nowhere to write.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        return _fail(
            f"the system refused: {error.strerror or error}{place}", "make room, or check the permissions", 1, debug
        )
    except Exception as error:  # noqa: BLE001  # the last line of defence: no traceback unless asked for
        return _fail(
            f"{type(error).__name__}: {str(error)[:200]}", "run again with --debug and report it", 1, debug
        )
    return result if isinstance(result, int) else 0


def _advice(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "simstream"
    return f"see `{path} --help`"


def _fail(what: str, todo: str, code: int, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exc()
    line = " ".join(f"simstream: {what}{': ' + todo if todo else ''}".split())
    click.echo(printable(line), err=True)
    return code
