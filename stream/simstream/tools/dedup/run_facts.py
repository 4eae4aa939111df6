"""Says what a run of `dedup` depends on, and in what another run differs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

import msgspec

from simstream.errors import UsageError
from simstream.interrupts import BEAT_S
from simstream.sources.addresses import is_web
from simstream.sources.input_files import InputFile, opened, refuse_single_pass, shown_path
from simstream.sources.noted_lines import file_stamp

FORMAT: Final = 2
_THREADS: Final = 16


class FileFacts(msgspec.Struct, frozen=True, array_like=True):
    """A file by its shown path, and what changes whenever the file does."""

    path: str
    stamp: str


class RunFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What verdicts depend on. `options`: the value of each option by its name."""

    inputs: list[FileFacts]
    against: list[FileFacts]
    options: dict[str, str | int | bool | None]
    format: int = FORMAT
    policy: str = ""
    """The id of the policy; empty in the facts of an older version."""


def facts_of(files: Sequence[InputFile]) -> list[FileFacts]:
    """Return the facts of files. Raises UsageError if one cannot be read again, and what `opened` raises.

    Cost: a request for each address, 16 at a time. Ctrl-C does not wait for their answers.
    """
    refuse_single_pass(files, "--state reads its inputs again")
    found: dict[int, FileFacts] = {}
    errors: dict[int, Exception] = {}

    def ask(first: int) -> None:
        for number in range(first, len(files), _THREADS):
            try:
                found[number] = _facts(files[number])
            except Exception as error:  # noqa: BLE001  # the caller gets it
                errors[number] = error
                return

    # Daemons: those of a ThreadPoolExecutor would keep the process until a server answers.
    threads = [threading.Thread(target=ask, args=(first,), name="facts", daemon=True) for first in range(_THREADS)]
    for thread in threads[: len(files)]:
        thread.start()
    for thread in threads[: len(files)]:
        while thread.is_alive():
            thread.join(BEAT_S)
    if errors:
        raise errors[min(errors)]
    return [found[number] for number in range(len(files))]


def _facts(file: InputFile) -> FileFacts:
    """Return the facts of a file. Raises UsageError if a change of it would go unseen."""
    with opened(file.path) as handle:
        stamp, shown = file_stamp(handle), shown_path(file.path)
    if not file.is_remote:
        stamp = stamp[1:]  # a disk may have another number after a reboot, or on another machine
    elif is_web(file.path) and not any(stamp[1:]):
        what = f"--state reads its inputs again, and the server of {shown} does not say when they change"
        raise UsageError(f"{what} (ETag, Last-Modified)", "download the file, and name the copy")
    return FileFacts(shown, repr(stamp))


def differences(known: RunFacts, given: RunFacts) -> Iterator[str]:
    """Yield in words what a known run has, where another run has something else."""
    if known.format != given.format:
        yield f"of format {known.format}"
    for name, ours, theirs in (("input", known.inputs, given.inputs), ("--against", known.against, given.against)):
        for one, other in zip_longest(ours, theirs):
            if one == other:
                continue
            if one is None:
                yield f"without the {name} {other.path}"
            elif other is None:
                yield f"with the {name} {one.path}, too"
            elif one.path != other.path:
                yield f"with the {name} {one.path}, not {other.path}"
            else:
                yield f"with the {name} {one.path}, which has changed since"
            break
    for option, value in known.options.items():
        if value != given.options.get(option):
            shown = "" if value is True else f" {value}"
            yield f"without {option}" if value in (None, False) else f"with {option}{shown}"
