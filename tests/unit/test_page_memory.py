"""What a page costs in memory of the process itself, if records and tables lie in nameless files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simstream.judge.state import JudgeState
from simstream.model import PageSource
from tests.bench.made_pages import PageMaker, policy

CHUNK = 1 << 16
"""The pages of a chunk of records: after whole chunks, the one that is filled does not count."""
RETURNED = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""Otherwise the C library keeps up to some 60 MB of what was freed, which hides the rest at this size."""
CODE = """
import sys
from pathlib import Path
from simstream.judge.state import JudgeState
from simstream.model import PageSource
from simstream.telemetry.process_memory import held
from tests.bench.made_pages import PageMaker, policy

state, pages = JudgeState(policy(sketch_lookups=1)), PageMaker(0, 0)
state.resolver.use_folder(Path(sys.argv[1]), records=True)
for most in map(int, sys.argv[2:]):
    while pages.count < most:
        columns = pages.batch(2048)
        sources = [PageSource("p", 0, offset) for offset in columns.offset.tolist()]
        state.resolver.judge(columns, columns.time, pages.count - 2048, sources)
    print(dict(held())["own"])
"""


def test_a_page_takes_at_most_26_bytes_beside_the_index_and_its_record() -> None:
    """A fifth of the pages are like others: 13 % nearly, 7 % are copies under ids of their own."""
    state, pages = JudgeState(policy(sketch_lookups=1)), PageMaker(0.13, 0.07)
    while pages.count < 60_000:
        first, columns = pages.count, pages.batch(2_000)
        sources = [PageSource("p", 0, offset) for offset in columns.offset.tolist()]
        state.resolver.judge(columns, columns.time, first, sources)
    sizes = state.resolver.nbytes()
    assert sizes["rows and chains"] < 11 * pages.count
    assert sizes["rows and chains"] + sizes["directory"] + sizes["clusters"] < 26 * pages.count


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what is mapped and what is not")
def test_a_page_takes_at_most_45_bytes_of_own_memory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CODE, str(tmp_path), str(CHUNK), str(4 * CHUNK)]
    root, env = Path(__file__).parents[2], os.environ | RETURNED
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, env=env, check=False)
    assert done.returncode == 0, done.stderr
    first, last = map(int, done.stdout.split())
    assert (last - first) / (3 * CHUNK) < 45
