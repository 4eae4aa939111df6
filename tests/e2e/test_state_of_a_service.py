"""`simstream state` on the folder of a service: while it takes snapshots, and once it has stopped."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e import pages
from tests.e2e.harness import Program, watching


def said(program: Program, command: str, *flags: str) -> str:
    """What the command prints of the service's folder; it must end with 0."""
    done = program.run("state", command, "state", *flags)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def inspected(program: Program) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said(program, "inspect", "--json"))
    return found


def test_a_services_folder_is_looked_at_while_it_works_and_after(program: Program) -> None:
    program.good("topics", "create", "--partitions", 2)
    often = {"SIMSTREAM_FRAME_MAX_PAGES": "20", "SIMSTREAM_SNAPSHOT_EVERY": "50ms"}
    with (
        program.place.open() as log,
        watching(log) as watcher,
        program.serve("--state", "state", **often) as service,
    ):
        for seed in range(3):
            program.good("feed", pages.write(program.folder / f"{seed}.jsonl", 200, seed=seed))
            watcher.wait(200 * (seed + 1), service)
            service.until((program.folder / "state" / "manifest").exists, "it has taken a snapshot")
            assert "is whole" in said(program, "verify")
            assert inspected(program)["snapshots"]
        assert service.end() == 0, service.output
    newest = inspected(program)["snapshots"][0]["facts"]
    assert newest["ordinal"] == 600
    assert sum(offset for _, _, offset in newest["positions"]) >= 600
    assert "is whole" in said(program, "verify", "-v")
    shown = said(program, "inspect")
    assert newest["log_id"] in shown
    assert newest["digest"] in shown
