"""Roles in threads of a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from simstream.roles.context import RoleContext

PATIENCE_S = 120.0
"""Seconds that a role may take to end."""


@contextmanager
def running(run: Callable[[], object], context: RoleContext) -> Iterator[threading.Thread]:
    """Run a role in a thread, and ask it to end at the end. Fails if the role raises an error, or does not end."""
    errors: list[BaseException] = []

    def collect() -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001  # the test raises it
            errors.append(error)

    thread = threading.Thread(target=collect)
    thread.start()
    try:
        yield thread
    finally:
        context.stop.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the role does not end"
        if errors:
            raise AssertionError("the role failed") from errors[0]
