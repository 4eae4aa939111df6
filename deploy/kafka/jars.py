"""Kafka's jars: downloaded once with Maven into a cache folder; what a machine lacks for a broker."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
MIN_JAVA = 17

Say = Callable[[str], None]


class BrokerError(RuntimeError):
    """The broker cannot be downloaded or started; the message says why."""


def say_on_stderr(text: str) -> None:
    """Print a line of progress on stderr."""
    print(f"broker: {text}", file=sys.stderr, flush=True)  # noqa: T201 - a command's progress


def missing_packages() -> list[str]:
    """Return the apt packages to install before a broker can run; empty if nothing is missing."""
    missing = []
    if _java_version() < MIN_JAVA:
        missing.append("openjdk-17-jre-headless")
    if shutil.which("mvn") is None and not _jars_folder().is_dir():
        missing.append("maven")
    return missing


def _java_version() -> int:
    java = shutil.which("java")
    if java is None:
        return 0
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found.group(1)) if found else 0


def _cache_folder() -> Path:
    named = os.environ.get("SIMSTREAM_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "simstream"


def _jars_folder() -> Path:
    """Return the folder for this content of pom.xml: another Kafka version never finds the old jars."""
    version = hashlib.sha256((HERE / "pom.xml").read_bytes()).hexdigest()[:12]
    return _cache_folder() / f"kafka-{version}"


def download(say: Say = say_on_stderr) -> Path:
    """Return the folder with the broker's jars. The first call downloads them (54 MB) with Maven.

    Several processes may call it at once: one downloads, the others wait for it.
    """
    jars = _jars_folder()
    if jars.is_dir():
        return jars
    jars.parent.mkdir(parents=True, exist_ok=True)
    with (jars.parent / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.is_dir():
            say(f"downloading Kafka's jars with Maven into {jars} (54 MB, once; half a minute or so)")
            _copy_jars(jars)
    return jars


def _copy_jars(jars: Path) -> None:
    with tempfile.TemporaryDirectory(dir=jars.parent) as folder:
        shutil.copy(HERE / "pom.xml", folder)  # Maven may write beside it
        partial = Path(folder) / "libs"
        command = ["mvn", "-q", "-B", "-f", f"{folder}/pom.xml", "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={partial}", "-DincludeScope=runtime"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not partial.is_dir():
            raise BrokerError(f"Maven could not download Kafka: {(done.stdout + done.stderr)[-2000:]}")
        partial.rename(jars)
