"""A command that was forked does what it does in an interpreter of its own: see `nursery`."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

from tests.e2e import nursery
from tests.e2e.harness import Program, environment

PAGES = "".join(
    json.dumps({"id": str(n), "text": f"harbour lantern maker sold {n} lamps"}) + "\n" for n in range(3)
)
COMMANDS = (
    ("dedup", "-", "--recipe", "google2007"),
    ("fingerprint", "-"),
    ("tokens", "--json"),
    ("config",),
    ("dedup", "no-such-file"),
    ("no-such-command",),
)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_forked_command_says_and_ends_as_a_new_interpreter_does(
    alone: Program, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"stdin": PAGES.encode(), "SIMSTREAM_DISTANCE": "5"}
    forked = alone.run(*arguments, **given)
    monkeypatch.setenv("A_VARIABLE", "that is not the program's own")
    assert not is_forking(alone)
    anew = alone.run(*arguments, **given)
    assert (forked.returncode, forked.stdout, forked.stderr) == (anew.returncode, anew.stdout, anew.stderr)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_forked_service_hears_signals_and_its_exit_code_is_told(on_folder: Program, how: signal.Signals) -> None:
    on_folder.good("topics", "create", "--partitions", 1)
    with on_folder.serve() as service:
        assert isinstance(service.process, nursery.ForkedCommand) == is_forking(on_folder)
        service.ready()
        assert service.process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            service.wait(0.01)
        assert service.end(how) == (0 if how is signal.SIGTERM else -how)
        assert service.process.poll() == service.process.returncode


def is_forking(program: Program) -> bool:
    """Whether commands are forked now: not with `--real-starts`."""
    return nursery.nursery_of(environment(program._cache)) is not None
