"""docker-compose.yml without containers: its commands, with its settings, over a real broker, as they stand.

Only what names another place is replaced: the broker's address, the port and the folders.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from simstream.sources.demo import demo_records
from tests.e2e.harness import ROOT, Program, watching

SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def variables(name: str, program: Program) -> dict[str, str]:
    given: dict[str, str] = dict(SERVICES[name]["environment"])
    here = {"SIMSTREAM_LOG": program.place.address, "SIMSTREAM_HTTP_HOST": "127.0.0.1"}
    assert set(here) <= set(given)
    return given | here | {"SIMSTREAM_PREFIX": program.place.prefix}


def arguments(name: str, state: Path) -> list[str]:
    """The command of a service, with what it has mounted where it is here."""
    mounts: dict[str, Any] = {"/state": state}
    for mount in SERVICES[name].get("volumes", ()):
        source, target, *_ = mount.split(":")
        mounts.setdefault(target, ROOT / source)
    return [str(mounts.get(part, part)) for part in SERVICES[name]["command"]]


@pytest.mark.kafka
def test_the_services_of_the_compose_file_bring_every_demo_page_its_verdict(
    on_kafka: Program, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    done = on_kafka.run(*arguments("topics", state), **variables("topics", on_kafka))
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().count("created") == 5
    [_, *fingerprint], [_, *judge] = arguments("fingerprint", state), arguments("judge", state)
    with (
        on_kafka.place.open() as log,
        watching(log) as watcher,
        on_kafka.serve(*fingerprint, **variables("fingerprint", on_kafka)) as reading,
        on_kafka.serve(*judge, **variables("judge", on_kafka)) as judging,
    ):
        fed = on_kafka.run(*arguments("feed", state), **variables("feed", on_kafka))
        assert fed.returncode == 0, fed.stderr.decode()
        watcher.wait(len(list(demo_records(10 << 20))), judging)
        for service in (reading, judging):
            service.ready()
            assert service.get("/health/live")[0] == 200
            assert service.end() == 0
    assert list(state.iterdir())
