"""The broker for tests: it leaves nothing behind, and says what it lacks."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.kafka.broker import CLASSES, KafkaBroker, keep_classes
from deploy.kafka.jars import HERE, download, missing_packages
from deploy.server_process import free_port
from tests.waiting import until

START = (
    "import time\nfrom deploy.kafka.broker import KafkaBroker\nbroker = KafkaBroker().start()\n"
    "print(broker.pid, broker.data, flush=True)\ntime.sleep(600)\n"
)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.kafka
def test_a_broker_ends_with_the_process_that_started_it_and_takes_its_data_along(broker: KafkaBroker) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", START], stdout=subprocess.PIPE, text=True, cwd=HERE.parents[1]
    )
    assert process.stdout is not None
    pid, data = process.stdout.readline().split()
    assert is_alive(int(pid))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    until(lambda: not (is_alive(int(pid)) or Path(data).exists()), "the broker ends, and its data goes")


@pytest.mark.kafka
@pytest.mark.long
def test_classes_are_kept_once_and_brokers_begin_with_them(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for jar in download().glob("*.jar"):
        (tmp_path / jar.name).symlink_to(jar)
    monkeypatch.setattr("deploy.kafka.broker.download", lambda _say: tmp_path)
    keep_classes()
    [kept] = [path for path in tmp_path.iterdir() if not path.is_symlink()]
    assert kept.name == CLASSES
    written = kept.stat().st_mtime_ns
    keep_classes()
    assert kept.stat().st_mtime_ns == written
    with KafkaBroker(quick=True) as begun:
        assert str(kept) in Path(f"/proc/{begun.pid}/maps").read_text()


def test_what_is_missing_is_named_as_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SIMSTREAM_CACHE", str(tmp_path))
    assert missing_packages() == ["openjdk-17-jre-headless", "maven"]


def test_an_old_java_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert "openjdk-17-jre-headless" in missing_packages()


def run_module(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "deploy.kafka.broker", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=HERE.parents[1])


def broker_of(data: Path) -> int:
    """The broker process with its settings in `data`."""
    wanted = str(data / "server.properties").encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if wanted in path.read_bytes().split(b"\0"):
                return int(path.parent.name)
    raise LookupError(data)


@pytest.mark.kafka
def test_a_port_that_is_taken_is_named_before_anything_starts(broker: KafkaBroker) -> None:
    process = run_module("--port", str(broker.port))
    assert process.communicate(timeout=120)[1].splitlines() == [
        f"broker: port {broker.port} is taken: stop its process, "
        f"or choose another: make broker PORT={broker.port + 1}"
    ]
    assert process.returncode == 1


@pytest.mark.kafka
@pytest.mark.usefixtures("broker")
def test_a_broker_that_ends_by_itself_leaves_its_log_and_names_it() -> None:
    process = run_module("--port", str(free_port()))
    assert process.stderr is not None
    assert "simstream topics create --log kafka://127.0.0.1:" in process.stderr.readline()
    where = process.stderr.readline()
    assert "make broker DATA=DIR keeps them" in where
    data = Path(where.split("records are in ")[1].split(" (")[0])
    os.kill(broker_of(data), signal.SIGKILL)
    said = process.communicate(timeout=120)[1]
    log = Path(said.split("its log: ")[1].strip())
    assert log.is_file()
    shutil.rmtree(data)
    assert process.returncode == 1
