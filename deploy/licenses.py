"""The packages that this project depends on, with the licences that they declare.

python -m deploy.licenses         # writes LICENSES.md, of what is installed; `make audit` calls it
"""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements-test.txt"
LICENSES = ROOT / "LICENSES.md"
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

simstream itself is under Apache-2.0 (`LICENSE`). It comes with the tables of jieba 0.42.1, which are under the MIT
licence (`stream/simstream/text/tables/jieba/LICENSE`). This file lists other packages with the licences that they
declare: what simstream needs to run, what its extras add, and what only its tests, tools and pictures need. An
installation has the first part, and the packages of the extras that it asks for. The image has the packages of
`requirements-image.txt`, and with `--build-arg EXTRAS=msk,registry,tracing` also of `requirements-msk.txt`,
`requirements-registry.txt` and `requirements-tracing.txt`. No installation has the third part. `make audit` writes
this file.
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
    fields = [*facts.get_all("License-Expression", []), *facts.get_all("License", [])]
    field = next(filter(None, fields), "")
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


if __name__ == "__main__":
    LICENSES.write_text(table(), encoding="utf-8")
