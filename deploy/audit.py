"""The packages that this project depends on, with their licences and known vulnerabilities.

    python -m deploy.audit            # writes LICENSES.md, then asks the advisory database; `make audit`

If the database does not answer, asks the package index, which repeats the database's advisories. Some indexes do so
only for a package's newest version. Ends with 0 if no vulnerability is known, with 1 if one is known, and with 3 if
some packages had no answer; then it names these packages.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import re
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements-test.txt"
LICENSES = ROOT / "LICENSES.md"
SERVICE = "https://api.osv.dev/v1/querybatch"
INDEX = "https://pypi.org/pypi"
AT_ONCE = 8
NOT_CHECKED = 3
TIMEOUT_S = 30.0
_SHORT = {
    "Apache": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "BSD 2-Clause License": "BSD-2-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-based",
}
_HEAD = """# Licences

simstream itself is under Apache-2.0 (`LICENSE`). This file lists other packages with the licences that they
declare: what simstream needs to run, what its extras add, and what only its tests, tools and pictures need. An
installation has the first part, and the packages of the extras that it asks for. The image has the packages of
`requirements-feed.txt`. No installation has the third part. `make audit` writes this file.
"""


def pinned(lock: Path = LOCK) -> dict[str, str]:
    """Name and version of each package in the lock file."""
    lines = (line.partition("#")[0].strip() for line in lock.read_text(encoding="utf-8").splitlines())
    pins = [Requirement(line.removesuffix("\\").strip()) for line in lines if "==" in line]
    return {pin.name: next(iter(pin.specifier)).version for pin in pins}


def needed(extras: bool = False) -> dict[str, str]:
    """Return the packages that the project needs to run, and what these need: spelt names by normalised names.

    `extras`: also the packages of its extras. Packages that are not installed are left out.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = [project["dependencies"], *(project["optional-dependencies"].values() if extras else ())]
    open_ends = [Requirement(line) for lines in lists for line in lines]
    found: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    while open_ends:
        one = open_ends.pop()
        if (key := (normal(one.name), frozenset(one.extras))) in seen or not is_installed(one.name):
            continue
        seen.add(key)
        found.setdefault(normal(one.name), one.name)
        open_ends += _required(one)
    return found


def _required(one: Requirement) -> Iterable[Requirement]:
    """Return the packages that a package needs on this machine, with the requested extras."""
    for line in importlib.metadata.requires(one.name) or ():
        found = Requirement(line)
        if found.marker is None or any(found.marker.evaluate({"extra": extra}) for extra in ("", *one.extras)):
            yield found


def is_installed(name: str) -> bool:
    """Return whether a package is installed."""
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def normal(name: str) -> str:
    """Return a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licence(name: str) -> str:
    """Return the licence that an installed package declares: as expression, short field or classifiers."""
    facts = importlib.metadata.metadata(name)
    classifiers = [
        one.rpartition("::")[2].strip() for one in facts.get_all("Classifier") or () if "License ::" in one
    ]
    field = facts.get("License-Expression") or facts.get("License") or ""
    if not field or "\n" in field or len(field) > 60:
        field = " OR ".join(_SHORT.get(one, one) for one in classifiers)
    return _SHORT.get(field, field)


def table() -> str:
    """Return LICENSES.md for the installed packages."""
    running, shipped = needed(), needed(extras=True)
    extras = {key: name for key, name in shipped.items() if key not in running}
    others = {normal(name): name for name in pinned() if normal(name) not in shipped and is_installed(name)}
    parts = (("To run", running), ("With extras", extras), ("For tests, tools and pictures alone", others))
    return "\n".join([_HEAD, *(line for title, names in parts for line in [*_rows(title, names), ""])])


def _rows(title: str, names: dict[str, str]) -> list[str]:
    rows = [f"| {names[key]} | {licence(names[key]) or 'not declared'} |" for key in sorted(names)]
    return [f"## {title}", "", "| package | licence |", "|---|---|", *rows]


Advisory = tuple[str, str, str]
"""A known vulnerability: package, version, identifier."""


def vulnerabilities(packages: dict[str, str], service: str = SERVICE) -> list[Advisory]:
    """Return the vulnerabilities of these versions in the database.

    Raises OSError, ValueError and KeyError if it does not answer as expected.
    """
    names = list(packages)
    ecosystem = [{"package": {"name": normal(n), "ecosystem": "PyPI"}, "version": packages[n]} for n in names]
    request = urllib.request.Request(
        service, json.dumps({"queries": ecosystem}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        results: list[dict[str, Any]] = json.load(answer)["results"]
    if len(results) != len(names):
        raise ValueError("it did not answer every question")
    return [
        (n, packages[n], one["id"])
        for n, found in zip(names, results, strict=True)
        for one in found.get("vulns", ())
    ]


def advisories(packages: dict[str, str], index: str = INDEX) -> tuple[list[Advisory], list[str]]:
    """Return the vulnerabilities of these versions in a package index, and the names without an answer."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda name: _of_index(index, name, packages[name]), packages))
    found = [(n, packages[n], one) for n, said in zip(packages, answers, strict=True) for one in said or ()]
    return found, [n for n, said in zip(packages, answers, strict=True) if said is None]


def _of_index(index: str, name: str, version: str) -> list[str] | None:
    for page in (f"{name}/{version}", name):
        try:
            with urllib.request.urlopen(f"{index}/{page}/json", timeout=TIMEOUT_S) as answer:
                said: dict[str, Any] = json.load(answer)
            if said["info"]["version"] == version:
                return [one["id"] for one in said["vulnerabilities"] if not one.get("withdrawn")]
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the licences, and ask for vulnerabilities. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Licences and known vulnerabilities of the dependencies.")
    parser.add_argument("--service", default=SERVICE, help="the advisory database (default: %(default)s)")
    parser.add_argument("--index", default=INDEX, help="the package index, asked instead (default: %(default)s)")
    parser.add_argument("--licenses", type=Path, default=LICENSES)
    options = parser.parse_args(arguments)
    options.licenses.write_text(table(), encoding="utf-8")
    packages = pinned()
    silent: list[str] = []
    try:
        found = vulnerabilities(packages, options.service)
    except (OSError, ValueError, KeyError) as error:
        _say([f"{options.service} did not answer ({error}): asking {options.index}"])
        found, silent = advisories(packages, options.index)
    _say(f"{name} {version}: {identifier}" for name, version, identifier in found)
    _say([f"{len(packages) - len(silent)} packages checked, {len(found)} known vulnerabilities"])
    if silent:
        named = ", ".join(f"{name} {packages[name]}" for name in silent)
        _say([f"NOT CHECKED, {len(silent)} packages: {named}. Run it where the database can be reached."])
    return 1 if found else NOT_CHECKED if silent else 0


def _say(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"audit: {line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
