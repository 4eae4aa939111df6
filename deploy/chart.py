"""Writes what Helm makes of the chart, so that tests can look at it where helm is not installed.

HELM=/path/to/helm python -m deploy.chart     # after each change of deploy/helm; needs helm 3 or later
"""

from __future__ import annotations

import os
import shutil
import subprocess
from hashlib import blake2b
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "deploy" / "helm" / "simstream"
RENDERED = ROOT / "tests" / "golden" / "helm"
"""For each file NAME.values.yaml the documents that helm makes, as NAME.yaml."""
CASES = ("default", "all", "more")


def helm_path() -> str | None:
    """Return the path of helm: the variable HELM, or else on PATH."""
    return os.environ.get("HELM") or shutil.which("helm")


def chart_digest() -> str:
    """Return 16 hex digits over all files that the documents are made from."""
    digest = blake2b(digest_size=8)
    for path in sorted(one for folder in (CHART, RENDERED) for one in folder.rglob("*")):
        if path.is_file() and (path.is_relative_to(CHART) or path.name.endswith(".values.yaml")):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def render(case: str, helm: str) -> str:
    """Return the documents of a case, with the digest of the chart in the first line. Raises CalledProcessError."""
    line: list[str | Path] = [helm, "template", "simstream", CHART, "--values", RENDERED / f"{case}.values.yaml"]
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return f"# chart {chart_digest()}: HELM=/path/to/helm python -m deploy.chart writes this file\n{done.stdout}"


def main() -> None:
    """Write all cases."""
    helm = helm_path()
    if helm is None:
        raise SystemExit("helm is neither on PATH nor named by HELM: install helm, or set HELM=/path/to/helm")
    for case in CASES:
        (RENDERED / f"{case}.yaml").write_text(render(case, helm), encoding="utf-8")


if __name__ == "__main__":
    main()
