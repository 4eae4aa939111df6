"""The judge's state in its folder: kills amid snapshots, folders removed, put back, damaged, shared; a log cut.

Whatever happened, the next judge goes on to the right verdicts or refuses by name; then its folder is put back.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from simstream.files.folder import StateFolder
from tests.chaos.arena import ChaosArena, ChaosScale
from tests.e2e.harness import QUICK_SESSION, Service

WINDOWS = (None, 2 * 3_600_000)
OFTEN = {"snapshot_every": "50ms", "snapshot_pages": 40, "frame_max_pages": 10}


class JudgeWithCopies:
    """One judge at a time with its state in a folder, and copies of the folder to put back."""

    def __init__(self, arena: ChaosArena, flags: tuple[str, ...]) -> None:
        self.arena = arena
        self.path = arena.folder / "state"
        self.done: Counter[str] = Counter()
        self._flags = flags
        self._copies: list[Path] = []
        self._wounded = False
        self.judge = self._start()

    def _start(self) -> Service:
        """The arena does not expect it to run, as it may refuse its folder."""
        judge = self.arena.serve("judge", *self._flags, state=self.path, **OFTEN)
        self.arena.running.remove(judge)
        return judge

    def works(self, verdicts: int = 0) -> None:
        """Until the judge is ready and so many verdicts are there. One that refuses a folder that was damaged, now
        or when it reads more of it, gets a whole one."""

        def done() -> bool:
            if self.judge.process.poll() is None:
                return self.arena.watcher.look() >= verdicts and self.judge.get("/health/ready")[0] == 200
            assert self._wounded, f"the judge ended:\n{self.judge.output[-3000:]}"
            return True

        self.arena.until(done, f"the judge is ready and {verdicts} verdicts are there")
        if self.judge.process.poll() is not None:
            self._put_right()
            self.works(verdicts)

    def _put_right(self) -> None:
        """The judge has refused: by name, as `state verify` says too; then bring the copy back."""
        lines = [line for line in self.judge.output.splitlines() if line.startswith("simstream: ")]
        assert lines, f"it ended without a name for it:\n{self.judge.output[-3000:]}"
        assert "Traceback" not in self.judge.output
        verified = self.arena.program.run("state", "verify", self.path)
        assert verified.returncode == 1, f"the judge said {lines[-1]}, but verify finds {verified.stdout!r}"
        self.done["damage refused"] += 1
        self._restore(self._copies[-1])
        self._wounded = False
        self.judge = self._start()

    def stop(self) -> None:
        """End the judge in one way or another, and keep a copy of its folder."""
        clean = self.arena.rng.random() < 0.2 and bool(self.judge.output) and not self._wounded
        if clean:
            assert self.judge.end() == 0, self.judge.output[-3000:]
        else:
            self.judge.kill()
        self.done["clean stops" if clean else "kills"] += 1
        if self.path.is_dir() and not self._wounded:
            kept = self.arena.folder / f"copy-{self.done.total()}"
            shutil.copytree(self.path, kept)
            self._copies.append(kept)

    def go_on(self) -> None:
        self.judge = self._start()

    def _restore(self, copy: Path) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(copy, self.path)

    def nothing(self) -> None:
        """Nothing else happens."""

    def remove(self) -> None:
        """The folder is lost; as long as the log is whole this costs time only."""
        if not self.arena.cut_at:
            shutil.rmtree(self.path, ignore_errors=True)
            self._wounded = False
            self.done["folders removed"] += 1

    def older(self) -> None:
        """The folder is put back to an earlier time."""
        if self._copies:
            self._restore(self.arena.rng.choice(self._copies))
            self._wounded = False
            self.done["older folders"] += 1

    def damage(self) -> None:
        """One file is changed in one byte, cut short, or gone."""
        if self.arena.cut_at or not self._copies or not self.path.is_dir():
            return  # the copy that mends it must not be older than the log
        wound(self.path, self.arena.rng)
        self._wounded = True
        self.done["damaged"] += 1

    def cut(self) -> None:
        """The log loses all that lies below both snapshots; older copies of the folder are useless from then on."""
        if self._wounded:
            return
        with StateFolder(self.path) as folder:
            oldest = min((int(s.manifest.facts["frame"]) for s in folder.snapshots), default=0)
        if oldest > self.arena.cut_at:
            self.arena.cut(oldest)
            self._copies.clear()
            self.done["log cut"] += 1

    def share(self) -> None:
        """A second judge is given the same folder while the first works: it is refused, the first goes on."""
        self.go_on()
        self.works()
        second = self.arena.serve("judge", *self._flags, state=self.path, **OFTEN)
        assert "already uses the state" in self.arena.failed(second)
        self.done["second processes"] += 1
        self.judge.kill()

    def stranger(self) -> None:
        """A judge of another policy is given the folder: it is refused, and leaves it as it was."""
        if not self._wounded and self.arena.watcher.look():
            flags = ("--link", "any", "--distance", "3")
            other = self.arena.serve("judge", *flags, state=self.path, **OFTEN)
            assert "policy" in self.arena.failed(other)
            self.done["strangers"] += 1


def wound(path: Path, rng: random.Random) -> None:
    """Change one byte of one file, cut the file short, or take it away."""
    files = [file for file in sorted(path.iterdir()) if file.is_file() and file.stat().st_size]
    if not files:
        return
    file = rng.choice(files)
    data = bytearray(file.read_bytes())
    place = rng.randrange(len(data))
    match rng.randrange(3):
        case 0:
            data[place] ^= 1 << rng.randrange(8)
            file.write_bytes(data)
        case 1:
            file.write_bytes(data[:place])
        case _:
            file.unlink()


def states(arena: ChaosArena, scale: ChaosScale) -> str:
    """A judge that takes snapshots all the time is stopped in every way, and finds its folder changed."""
    rng = arena.rng
    window, link = rng.choice(WINDOWS), rng.choice(["any", "canonical"])
    flags = ("--link", link, *(("--window", f"{window}ms") if window else ()))
    arena.client(**QUICK_SESSION)
    arena.open(2)
    arena.serve("fingerprint", *flags, frame_max_pages=10)
    kept = JudgeWithCopies(arena, flags)
    acts: list[Callable[[], None]] = [
        kept.nothing, kept.nothing, kept.remove, kept.older, kept.damage, kept.damage, kept.cut, kept.share,
        kept.stranger,
    ]  # fmt: skip
    for _ in range(scale.faults):
        arena.feed.burst(scale.burst)
        if rng.random() < 0.7:
            kept.works()
        arena.pause(rng.choice([0.05, 0.3, 1.0]))
        kept.stop()
        rng.choice(acts)()
        kept.go_on()
    arena.feed.burst(scale.burst)
    kept.works(len(arena.source()))
    arena.running.append(kept.judge)
    pages = arena.settle(window_ms=window, link=link)
    did = ", ".join(f"{number} {what}" for what, number in sorted(kept.done.items()))
    return f"{did}, {pages} pages, link {link}, window {window}"
