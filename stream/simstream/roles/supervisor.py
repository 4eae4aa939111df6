"""Runs the roles of one process side by side, and ends them together."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from simstream.errors import SimstreamError
from simstream.roles.context import RoleContext

_logger = logging.getLogger("simstream")


class RoleSupervisor:
    """Runs each role in a thread. The first failure stops all roles; `wait` raises its error."""

    def __init__(self, context: RoleContext, roles: Mapping[str, Callable[[], None]]) -> None:
        self._context = context
        self._errors: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(name, role), name=name, daemon=True)
            for name, role in roles.items()
        ]

    def start(self) -> None:
        """Start all roles."""
        for thread in self._threads:
            thread.start()

    def wait(self) -> None:
        """Wait until `context.stop` is set or a role fails; then until all roles have ended, within
        `stop_timeout`."""
        while not self._context.stop.wait(0.2):
            if not any(thread.is_alive() for thread in self._threads):
                break
        self._context.stop.set()
        timeout = self._context.settings.stop_timeout_s
        end = time.monotonic() + timeout
        while time.monotonic() < end and self._at_work():
            time.sleep(0.02)
        if self._errors:
            raise self._errors[0]
        late = self._at_work()
        if late:
            raise SimstreamError(
                f"{', '.join(late)} did not end within {timeout:g} s",
                "start again: nothing is lost, and work that was not committed is done again",
            )

    def join(self, timeout: float) -> None:
        """Wait until all roles have ended, also those that have no work; at most `timeout` seconds."""
        end = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _at_work(self) -> list[str]:
        """Return the roles that still end their work. A role that waits for the log's first answer has no work."""
        alive = [thread.name for thread in self._threads if thread.is_alive()]
        return [name for name in alive if not self._context.health.is_starting(name)]

    def _run(self, name: str, role: Callable[[], None]) -> None:
        try:
            role()
            _logger.info("%s ended", name)
        except BaseException as error:  # noqa: BLE001  # `wait` raises it in the main thread
            self._errors.append(error)
            self._context.stop.set()
