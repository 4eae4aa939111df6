"""Writes what Helm makes of the chart: the plain manifests, and documents that tests look at.

python -m deploy.chart     # after each change of deploy/helm
"""

from __future__ import annotations

import re
from pathlib import Path

from deploy.helm_library import ROOT, template

RENDERED = ROOT / "tests" / "golden" / "helm"
"""For each file NAME.values.yaml the documents that helm makes, as NAME.yaml."""
CASES = ("default", "all", "more")
PLAIN = ROOT / "deploy" / "kubernetes"
"""The manifests for kubectl: simstream.values.yaml has the values that they are made with."""
MATCHERS = PLAIN / "matchers"
"""The component for kubectl. Its documents have the values of matchers.values.yaml, too."""
_FILES_OF_OPERATORS = {"ScaledObject": "scaling.yaml", "PodMonitor": "monitoring.yaml"}
"""Kinds that not every cluster knows: each has a file of its own, which kustomization.yaml can leave out."""


def kept() -> dict[Path, str]:
    """Return the text of every file that `main` writes. Raises HelmError, BrokerError."""
    texts = {RENDERED / f"{case}.yaml": template([RENDERED / f"{case}.values.yaml"]) for case in CASES}
    values = PLAIN / "simstream.values.yaml"
    for document in _documents(template([values])):
        path = PLAIN / _FILES_OF_OPERATORS.get(_first(r"^kind: (\w+)", document), "simstream.yaml")
        texts[path] = texts.get(path, "") + document
    matchers = _documents(template([values, MATCHERS / "matchers.values.yaml"]))
    of_matchers = [one for one in matchers if _first(r"^  name: (\S+)", one) == "simstream-match"]
    texts[MATCHERS / "matchers.yaml"] = "".join(of_matchers)
    return {path: f"# `python -m deploy.chart` writes this file.\n{text}" for path, text in texts.items()}


def _documents(text: str) -> list[str]:
    """Return the documents in helm's output, each with the line `---` before it."""
    return [f"---\n{one.rstrip()}\n" for one in re.split(r"^---\n", text, flags=re.MULTILINE) if one.strip()]


def _first(pattern: str, document: str) -> str:
    """Return what the pattern's group matches first."""
    found: list[str] = re.findall(pattern, document, re.MULTILINE)
    return found[0]


def main() -> None:
    """Write the plain manifests and the documents of all cases."""
    for path, text in kept().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
