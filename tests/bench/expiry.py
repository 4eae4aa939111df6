"""`python -m tests.bench.expiry`: a pause as long as the window, after which every page leaves in one step.

Pages are made up as in `tests.bench.state`. The state is filled, saved, and taken up again by the same process, so
that records lie on disk as in a service that was restarted; then one page comes whose time is behind all windows.
With `--folder` a state is kept and filled further at the next run: ten million pages take a while.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from simstream.errors import SimstreamError
from simstream.files.folder import StateFolder
from simstream.judge.pages.store import PageStore
from simstream.judge.state import JudgeState
from simstream.model import FingerprintColumns
from tests.bench.made_pages import BATCH, PageMaker, columns_of, policy
from tests.bench.state import LOG, judge, memory, save

SAVED_EVERY = 1_000_000
AIM_US = 1.0
"""Most microseconds a page."""
AIM_SHARE = 10.0
"""Most memory beside, in % of what the process has."""
AIM_BEAT_MS = 100.0


@dataclass(frozen=True, slots=True)
class ExpiryStep:
    """The cost of letting `pages` leave in one step."""

    pages: int
    seconds: float
    longest_ms: float
    """The longest time without a beat."""
    resident_mb: float
    beside_mb: float
    """How much more memory the process had at the highest."""
    filled_us: float
    """Microseconds to judge a page while the state was filled."""

    @property
    def us(self) -> float:
        """Microseconds a page."""
        return 1e6 * self.seconds / self.pages


class BeatTimer:
    """Knows the longest time between two beats."""

    def __init__(self) -> None:
        self.last = time.perf_counter()
        self.longest = 0.0

    def __call__(self) -> None:
        now = time.perf_counter()
        self.longest, self.last = max(self.longest, now - self.last), now


def window_ms(pages: int) -> int:
    """A window that holds all of them: ten come in a millisecond."""
    return pages // 10 + 1


def fill(folder: Path, pages: int, link: str, seconds: float) -> tuple[int, float]:
    """Judge made-up pages until there are enough, or the time is over. Return how many there are, and us for
    each."""
    beats = BeatTimer()
    began, alike, judged = time.perf_counter(), 0, 0
    with StateFolder(folder) as kept:
        state = _taken_up(kept, pages, link, beats)
        made = PageMaker(0.13, 0.07, seed=1 + state.acceptor.ordinal)
        made.count = state.acceptor.ordinal
        while made.count < pages and time.perf_counter() - began < seconds:
            alike += judge(state, made.batch(min(BATCH, pages - made.count)))
            judged += BATCH
            if made.count % SAVED_EVERY < BATCH:
                save(state, kept)
        took = time.perf_counter() - began
        state.index.wait()
        save(state, kept)
        state.close()
    return made.count, 1e6 * took / max(1, judged)


def step(folder: Path, pages: int, link: str, filled_us: float = 0.0) -> ExpiryStep:
    """Take a full state up, and judge one page after the pause."""
    beats = BeatTimer()
    _warm_up(link)
    with StateFolder(folder) as kept:
        state = _taken_up(kept, pages, link, beats)
        live = state.resolver.live_pages
        last = last_page(3 * window_ms(pages))
        before = memory()["VmRSS"]
        Path("/proc/self/clear_refs").write_text("5")  # the highest is counted from here on
        beats()
        beats.longest, began = 0.0, time.perf_counter()
        judge(state, last)
        beats()
        took = time.perf_counter() - began
        if state.resolver.live_pages != 1:
            raise SimstreamError(f"{state.resolver.live_pages} pages are live after the pause, not one")
        highest = memory()["VmHWM"]
        state.close()
    return ExpiryStep(live, took, 1e3 * beats.longest, before, highest - before, filled_us)


def _warm_up(link: str) -> None:
    """Compile all that the step runs."""
    state = JudgeState(policy(link, window_ms(4 * BATCH)))
    made = PageMaker(0.3, 0.1)
    for _ in range(4):
        judge(state, made.batch())
    judge(state, last_page(3 * window_ms(4 * BATCH)))


def last_page(time_ms: int) -> FingerprintColumns:
    """One page, unlike all others, at that time."""
    return replace(
        columns_of(1 << 40, np.zeros(1, np.uint64), np.zeros((1, 4), np.uint64)), time=np.array([time_ms])
    )


def _taken_up(kept: StateFolder, pages: int, link: str, beats: BeatTimer) -> JudgeState:
    state = JudgeState(policy(link, window_ms(pages)), background=True, beat=beats)
    loaded = kept.load(trusted=PageStore.KINDS)
    if loaded is not None:
        state.restore(loaded.parts, loaded.facts, LOG)
        state.read_from_disk(kept.files, loaded.sealed.values())
    return state


def told(found: ExpiryStep, link: str) -> str:
    """The figures with their aims."""
    share = 100 * found.beside_mb / found.resident_mb
    return (
        f"{link}: {found.pages:,} pages left in {found.seconds:.2f} s: {found.us:.2f} us a page (aim {AIM_US}); "
        f"longest without a beat {found.longest_ms:.0f} ms (aim {AIM_BEAT_MS:.0f}); "
        f"memory {found.resident_mb:,.0f} MB, at most {found.beside_mb:,.0f} MB more: "
        f"{share:.1f} % (aim {AIM_SHARE:.0f})"
    )


def main() -> None:
    """Run it; `--pages 10000000` is the figure that counts."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.expiry", description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--link", choices=("any", "canonical"), default="any")
    parser.add_argument("--folder", type=Path, help="keep the state here, and go on with it")
    parser.add_argument("--seconds", type=float, default=1e9, help="fill for so long at most")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary) / "state"
        there, us = fill(folder, asked.pages, asked.link, asked.seconds)
        if there < asked.pages:
            print(f"{there:,} of {asked.pages:,} pages, {us:.1f} us each: run it again")
            return
        print(told(step(folder, asked.pages, asked.link, us), asked.link))


if __name__ == "__main__":
    main()
