"""Output files: written beside their place and put there when they are whole, so that nothing is lost."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from stream.errors import InputError, UsageError


@contextmanager
def written(path: str, inputs: Sequence[str]) -> Iterator[BinaryIO]:
    """A file to write to that becomes `path` at the end; `-` is stdout, devices and pipes are written as they are.

    After an InputError what was written before it is kept; after any other error `path` is as it was. Raises
    UsageError where it cannot be written or is one of the inputs.
    """
    if path == "-":
        yield sys.stdout.buffer
        return
    refuse_input(path, inputs)
    direct = os.path.exists(path) and not os.path.isfile(path)
    beside = path if direct else f"{path}.part"
    keep = direct
    with _opened(beside, path) as out:
        try:
            yield out
            keep = True
        except InputError:
            keep = True
            raise
        finally:
            out.close()
            if not direct:
                os.replace(beside, path) if keep else os.unlink(beside)


def refuse_input(path: str, inputs: Sequence[str]) -> None:
    """Raise UsageError where an output would be written over one of the inputs."""
    if any(os.path.exists(name) and os.path.exists(path) and os.path.samefile(name, path) for name in inputs):
        raise UsageError(f"{path} is an input, too", "name another file with -o")


def _opened(beside: str, path: str) -> BinaryIO:
    try:
        return open(beside, "wb")
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror})", "name another file with -o") from error
