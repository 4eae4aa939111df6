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


def say_on_stderr(text: str, program: str = "broker") -> None:
    """Print a line of a program's progress on stderr."""
    print(f"{program}: {text}", file=sys.stderr, flush=True)  # noqa: T201 - a command's progress


def missing_packages(pom: Path = HERE / "pom.xml", name: str = "kafka") -> list[str]:
    """Return the apt packages to install before a broker can run; empty if nothing is missing."""
    missing = []
    if _java_version() < MIN_JAVA:
        missing.append("openjdk-17-jre-headless")
    if shutil.which("mvn") is None and not _folder_of(pom, name).is_dir():
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


def _folder_of(pom: Path, name: str) -> Path:
    """Return the folder for this content of a pom.xml: another version never finds the old files."""
    return _cache_folder() / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"


def download(say: Say = say_on_stderr) -> Path:
    """Return the folder with the broker's jars. The first call downloads them (54 MB) with Maven."""
    return download_once(HERE / "pom.xml", "kafka", "Kafka's jars (54 MB, once; half a minute or so)", say)


def download_once(
    pom: Path, name: str, what: str, say: Say, finish: Callable[[Path], None] = lambda _: None
) -> Path:
    """Return the folder with what a pom.xml names; the first call downloads it with Maven. `finish` may then change
    the new folder. Raises BrokerError.

    Several processes may call it at once: one downloads, the others wait for it.
    """
    folder = _folder_of(pom, name)
    cache = folder.parent
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            say(f"downloading {what} with Maven into {folder}")
            _copy_dependencies(pom, folder, finish)
    return folder


def _copy_dependencies(pom: Path, folder: Path, finish: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        shutil.copy(pom, temporary)  # Maven may write beside it
        partial = Path(temporary) / "libs"
        command = ["mvn", "-q", "-B", "-f", f"{temporary}/pom.xml", "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={partial}", "-DincludeScope=runtime"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not partial.is_dir():
            raise BrokerError(f"Maven could not download {folder.name}: {(done.stdout + done.stderr)[-2000:]}")
        finish(partial)
        partial.rename(folder)
