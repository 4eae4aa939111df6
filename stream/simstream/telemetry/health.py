"""Knows the health of each role: whether it has started, turns and is ready, and why not."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import msgspec

UNREADY_AFTER_S = 10.0
"""Seconds. A role whose loop has not turned for longer counts as waiting, whatever it said before."""


PATIENCE_S = 60.0
"""The default number of seconds in which a role's loop must turn once to be live."""
STARTING = "starting"
REPLAYING = "replaying"
STANDBY = "standby"
WORKING = "working"


@dataclass(slots=True)
class _RoleState:
    state: str
    ready: bool
    why: str
    turned: float
    patience_s: float
    late_from: float
    """Until then it may wait: only the time after it counts as the age of its turn."""


class RoleHealth(msgspec.Struct, frozen=True):
    """What one role last said. `state` is one of the states above; its loop turned `turned_s` seconds ago."""

    state: str
    ready: bool
    why: str
    turned_s: float


class ServiceHealth:
    """What every role last said about itself. Safe to use from all threads.

    A role is live if its loop turns at least once in `patience_s` seconds.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._roles: dict[str, _RoleState] = {}

    def expect(self, role: str, patience_s: float = 0.0) -> None:
        """Expect a role. Its first turn may take `patience_s` seconds longer than later ones."""
        with self._lock:
            self._roles[role] = self._waiting(STARTING, STARTING, patience_s)

    def is_starting(self, role: str) -> bool:
        """Whether a role has not begun to work, so it has no work to end."""
        with self._lock:
            return role in self._roles and self._roles[role].state == STARTING

    def turn(self, role: str, ready: bool = True, why: str = "", state: str = WORKING) -> None:
        """Note that a role's loop turned, and whether it is ready. `why` may also say what a ready role does."""
        with self._lock:
            now = time.monotonic()
            self._roles[role] = _RoleState(state, ready, why, now, self._patience_s, now)

    def note_wait(self, role: str, why: str, patience_s: float) -> None:
        """Note that a role is about to wait for at most `patience_s` seconds.

        The role is not ready meanwhile. Its next turn may take that much longer.
        """
        with self._lock:
            state = self._roles[role].state if role in self._roles else STARTING
            self._roles[role] = self._waiting(state, why, patience_s)

    def _waiting(self, state: str, why: str, patience_s: float) -> _RoleState:
        now = time.monotonic()
        return _RoleState(state, False, why, now, self._patience_s + patience_s, now + patience_s)

    def beat(self, role: str) -> None:
        """Note that a role is alive without any change, for instance while it waits."""
        with self._lock:
            self._roles[role].turned = self._roles[role].late_from = time.monotonic()

    def started(self) -> tuple[bool, str]:
        """Return whether every role has begun, and which has not. A role has begun once its log answered and its
        state is loaded; it may still replay or stand by."""
        with self._lock:
            late = [name for name, role in self._roles.items() if role.state == STARTING]
            known = bool(self._roles)
        return known and not late, f"starting: {', '.join(late)}" if late else "started" if known else STARTING

    def live(self) -> tuple[bool, str]:
        """Return whether every role's loop turns, and which does not."""
        now = time.monotonic()
        with self._lock:
            stuck = [name for name, role in self._roles.items() if now - role.turned > role.patience_s]
        return not stuck, f"stuck: {', '.join(stuck)}" if stuck else "live"

    def turn_ages(self) -> dict[str, float]:
        """Return how many seconds ago each role gave a sign; 0 before the first, and while it is told to wait."""
        now = time.monotonic()
        with self._lock:
            return {name: max(0.0, now - role.late_from) for name, role in self._roles.items()}

    def ready(self, only: str | None = None) -> tuple[bool, str]:
        """Return whether every role is ready, or only this one, and what each unready role waits for.

        A standby that follows closely counts as ready: it can take over. Otherwise a rollout that waits for
        readiness would wait for the judge that it replaces.
        """
        now = time.monotonic()
        with self._lock:
            roles = {name: role for name, role in self._roles.items() if only in (None, name)}
            waiting = [f"{name}: {role.why}" for name, role in roles.items() if not role.ready]
            waiting += [
                f"{name}: waits for an answer"
                for name, role in roles.items()
                if role.ready and now - role.turned > min(UNREADY_AFTER_S, role.patience_s)
            ]
            said = [f"{name}: {role.why}" for name, role in roles.items() if role.ready and role.why]
        if not roles:
            return False, "starting"
        return not waiting, "; ".join(waiting or ["ready", *said])

    def describe_roles(self) -> dict[str, RoleHealth]:
        """Return what every role last said, by its name."""
        now = time.monotonic()
        with self._lock:
            return {
                name: RoleHealth(
                    state=role.state, ready=role.ready, why=role.why, turned_s=round(now - role.turned, 3)
                )
                for name, role in self._roles.items()
            }
