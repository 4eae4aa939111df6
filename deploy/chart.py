"""Writes what Helm makes of the chart: the plain manifests, and documents that tests look at without helm.

HELM=/path/to/helm python -m deploy.chart     # after each change of deploy/helm; needs helm 3 or later
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "deploy" / "helm" / "simstream"
RENDERED = ROOT / "tests" / "golden" / "helm"
"""For each file NAME.values.yaml the documents that helm makes, as NAME.yaml."""
CASES = ("default", "all", "more")
PLAIN = ROOT / "deploy" / "kubernetes"
"""The manifests for kubectl: simstream.values.yaml has the values that they are made with."""
MATCHERS = PLAIN / "matchers"
"""The component for kubectl. Its documents have the values of matchers.values.yaml, too."""
_FILES_OF_OPERATORS = {"ScaledObject": "scaling.yaml", "PodMonitor": "monitoring.yaml"}
"""Kinds that not every cluster knows: each has a file of its own, which kustomization.yaml can leave out."""


def helm_path() -> str | None:
    """Return the path of helm: the variable HELM, or else on PATH."""
    return os.environ.get("HELM") or shutil.which("helm")


def sources() -> list[Path]:
    """Return all files that the documents are made from."""
    paths = [path for path in CHART.rglob("*") if path.is_file()]
    return sorted(paths + [path for folder in (RENDERED, PLAIN) for path in folder.rglob("*.values.yaml")])


def digest(documents: str) -> str:
    """Return 16 hex digits over the sources and the documents made from them: a change of either changes it."""
    found = blake2b(digest_size=8)
    for path in sources():
        content = path.read_bytes()
        found.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
    found.update(documents.encode())
    return found.hexdigest()


def stamped(documents: str) -> str:
    """Return documents under a first line with their digest."""
    return f"# chart {digest(documents)}: HELM=/path/to/helm python -m deploy.chart writes this file\n{documents}"


def rendered(helm: str, values: Sequence[Path]) -> str:
    """Return the documents that helm makes with these files of values. Raises CalledProcessError."""
    given = [part for path in values for part in ("--values", path)]
    line: list[str | Path] = [helm, "template", "simstream", CHART, *given]
    return subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout


def kept(helm: str) -> dict[Path, str]:
    """Return the text of every file that `main` writes. Raises CalledProcessError."""
    texts = {RENDERED / f"{case}.yaml": rendered(helm, [RENDERED / f"{case}.values.yaml"]) for case in CASES}
    values = PLAIN / "simstream.values.yaml"
    for document in _documents(rendered(helm, [values])):
        path = PLAIN / _FILES_OF_OPERATORS.get(_first(r"^kind: (\w+)", document), "simstream.yaml")
        texts[path] = texts.get(path, "") + document
    matchers = _documents(rendered(helm, [values, MATCHERS / "matchers.values.yaml"]))
    of_matchers = [one for one in matchers if _first(r"^  name: (\S+)", one) == "simstream-match"]
    texts[MATCHERS / "matchers.yaml"] = "".join(of_matchers)
    return {path: stamped(text) for path, text in texts.items()}


def _documents(text: str) -> list[str]:
    """Return the documents in helm's output, each with the line `---` before it."""
    return [f"---\n{one.rstrip()}\n" for one in re.split(r"^---\n", text, flags=re.MULTILINE) if one.strip()]


def _first(pattern: str, document: str) -> str:
    """Return what the pattern's group matches first."""
    found: list[str] = re.findall(pattern, document, re.MULTILINE)
    return found[0]


def main() -> None:
    """Write the plain manifests and the documents of all cases."""
    helm = helm_path()
    if helm is None:
        raise SystemExit("helm is neither on PATH nor named by HELM: install helm, or set HELM=/path/to/helm")
    for path, text in kept(helm).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
