"""Bench: whether shards give the same bytes as one index, on many real and made pages; what answers cost.

    python -m tests.bench.same_verdicts --pages FILE                         # 200,000 pages
    python -m tests.bench.same_verdicts --count 5000 --shards 1 --shards 4   # texts of the demo

Real texts come again as versions, as edited copies under other ids, and in templates; pages are withdrawn, too
short, late, or error pages, and the window moves on several times. All is judged in this process: the log goes to a
judge with an index of its own, and to each number of shards. The encoded verdicts must be equal.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from time import process_time

import click
import msgspec

from simstream.judge.policy import Policy, make_policy
from simstream.judge.state import JudgeState
from simstream.model import Page, PageKind, Record
from simstream.settings import default_cache
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import preset
from simstream.wire import frame as frames
from simstream.wire import verdict as wire
from simstream.wire.identity_hash import identity_of
from tests.bench.measure import line, load, title
from tests.shards import ShardedJudge

HOUR_MS = 3_600_000
PAGE_MS = 20_000
"""Time from page to page: 200,000 pages span 46 days."""
WINDOW_MS = 240 * HOUR_MS
FRAME_PAGES = 500
TOGETHER = 4
"""Frames that are judged at once."""
NEW, EDITED, VERSION, TEMPLATE, LATE = 0.40, 0.25, 0.15, 0.10, 0.04
"""Shares of new pages, edited copies, versions, pages of a template, and late pages; the rest brings no text."""


def pages_of(texts: Sequence[str], count: int, seed: int = 16) -> Iterator[Page]:
    """So many pages of these texts, in the order of the log."""
    rng = random.Random(seed)
    seen: list[tuple[str, str]] = []
    for number in range(count):
        time = number * PAGE_MS
        if rng.random() < LATE:
            time -= rng.randrange(2 * WINDOW_MS)
        text = texts[number % len(texts)] if number < len(texts) else _edited(rng, texts[number % len(texts)], 12)
        name, kind = f"https://site-{rng.randrange(500)}.example/{number}", PageKind.READABLE
        chance = rng.random()
        if chance < EDITED:
            text = _edited(rng, texts[rng.randrange(min(number, len(texts) - 1) + 1)], rng.randrange(6))
        elif chance < EDITED + VERSION and seen:
            name, text = rng.choice(seen[-50_000:])
            text = _edited(rng, text, rng.choice([0, 1, 2, 30]))
        elif chance < EDITED + VERSION + TEMPLATE:
            text = _edited(rng, texts[rng.randrange(3)], 1)
        elif chance < 1 - NEW and seen:
            name, _ = rng.choice(seen[-50_000:])
            kind = rng.choice([PageKind.WITHDRAWN, PageKind.TOO_SHORT, PageKind.FAILED, PageKind.UNREADABLE])
        seen.append((name, text))
        readable = kind == PageKind.READABLE
        yield Page(name, identity_of(name.encode()), number, time, kind=kind, text=text if readable else None)


def _edited(rng: random.Random, text: str, changes: int) -> str:
    """The text with so many short pieces cut out or doubled."""
    for _ in range(changes):
        at = rng.randrange(max(1, len(text) - 20))
        piece = text[at : at + rng.randrange(4, 20)]
        text = (
            text[:at] + piece + piece + text[at + len(piece) :]
            if rng.random() < 0.5
            else text.replace(piece, "", 1)
        )
    return text


def records(texts: Sequence[str], count: int, fingerprinter: Fingerprinter) -> list[Record]:
    """The pages as a log of frames."""
    found, pages = [], pages_of(texts, count)
    for number, start in enumerate(range(0, count, FRAME_PAGES)):
        some = [next(pages) for _ in range(start, min(start + FRAME_PAGES, count))]
        columns = fingerprinter.columns(some)
        words = columns.sketch.shape[1]
        header = frames.FrameHeader(
            fingerprinter.recipe_id, "p", "T", 0, start, start + len(some), words, first=start == 0
        )
        found.append(Record("f", 0, number, None, frames.encode(header, columns), (), 1 << 50))
    return found


def whole(policy: Policy, log: Sequence[Record]) -> tuple[list[bytes], float]:
    """The verdicts of a judge with its own index, and its seconds."""
    out: list[bytes] = []
    with closing(JudgeState(policy)) as state:
        began = process_time()
        for at in range(0, len(log), TOGETHER):
            taken = [state.accept(record) for record in log[at : at + TOGETHER]]
            out += map(wire.encode, state.resolve([one for one in taken if not isinstance(one, str)]))
        return out, process_time() - began


def divided(
    policy: Policy, log: Sequence[Record], shards: int, lose: int | None
) -> tuple[list[bytes], ShardedJudge, float]:
    """The same by shards and a judge without an index; the seconds are those of all together.

    Every `lose` pages the next shard loses its state, and takes in the log again.
    """
    out: list[bytes] = []
    judge = ShardedJudge(policy, shards, memtable_limit=4096)
    every = (lose or 0) // (FRAME_PAGES * TOGETHER)
    with closing(judge):
        began = process_time()
        for at in range(0, len(log), TOGETHER):
            turn, rest = divmod(at // TOGETHER, every) if every else (0, 1)
            if turn and not rest:
                judge.rebuild(turn % shards, log[:at], TOGETHER, at * FRAME_PAGES)
            out += map(wire.encode, judge.take(log[at : at + TOGETHER]))
        return out, judge, process_time() - began


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--pages", "file", type=click.Path(path_type=Path, exists=True), help="Texts: JSONL, .xz, .gz.")
@click.option("--texts", default=20_000, show_default=True, help="Texts taken from the file, or generated.")
@click.option("--count", default=200_000, show_default=True, help="Pages made of them.")
@click.option("--shards", "numbers", multiple=True, type=int, default=(1, 2, 4, 8), show_default=True)
@click.option(
    "--lose",
    type=click.IntRange(min=FRAME_PAGES * TOGETHER),
    help="Every so many pages the next shard loses its state.",
)
def main(file: Path | None, texts: int, count: int, numbers: Sequence[int], lose: int | None) -> None:
    """Compare shards with one index, byte for byte. Ends with 1 if a verdict differs."""
    title("same verdicts", f"{count:,} pages, a window of {WINDOW_MS // HOUR_MS} h, frames of {FRAME_PAGES}")
    known = [page["text"] for page in load(file, min(texts, count))]
    recipe = preset("default")
    with closing(Fingerprinter(recipe, default_cache(), workers=0)) as fingerprinter:
        log = records(known, count, fingerprinter)
        policy = make_policy(recipe, fingerprinter.recipe_id, window_ms=WINDOW_MS)
    expected, seconds = whole(policy, log)
    kinds = Counter(msgspec.json.decode(value)["verdict"] for value in expected)
    line(f"{dict(kinds)}")
    line(f"one index: {seconds / count * 1e6:.0f} us a page, verdicts and all")
    wrong = False
    for shards in numbers:
        found, judge, spent = divided(policy, log, shards, lose)
        same = found == expected
        wrong |= not same
        line(
            f"{shards} shards: {'the same bytes' if same else 'DIFFERENT'}; {spent / count * 1e6:.0f} us a page"
            f" of all together; {judge.answered_bytes / count:.0f} bytes a page on `matches`"
            + (f"; {judge.lost_states} states lost" if lose else "")
        )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
