"""Helm as a library, from Maven Central: neither PyPI nor Debian has its program.

python -m deploy.helm_library template FILE...     # prints the documents of the chart with these files of values
python -m deploy.helm_library lint                 # prints what `helm lint --strict` says

`template` and `lint` run this in a process of its own, as Go's runtime takes over the signals of the one it is in.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from deploy.kafka.jars import BrokerError, download_once, missing_packages, say_on_stderr

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "deploy" / "helm" / "simstream"
_POM = CHART.parent / "pom.xml"
_NAME = "helm"
_REFUSED = 3
"""The exit code of a call that Helm refused; what it said is on stdout."""


class HelmError(RuntimeError):
    """Helm refused the chart or its values; the message is Helm's."""


def missing() -> list[str]:
    """Return the apt packages to install before Helm can be downloaded; empty if nothing is missing."""
    return missing_packages(_POM, _NAME)


def template(values: Sequence[Path]) -> str:
    """Return the documents that Helm makes of the chart with these files of values; a later file overrides earlier
    ones.

    The release is called `simstream`. The first call downloads Helm with Maven. Raises HelmError, BrokerError.
    """
    return _in_a_process("template", *(str(path.resolve()) for path in values))


def lint() -> str:
    """Return what Helm says of the chart by its strict rules. Raises HelmError if that is an error, BrokerError."""
    return _in_a_process("lint")


def _in_a_process(*arguments: str) -> str:
    line = [sys.executable, "-m", "deploy.helm_library", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode == _REFUSED:
        raise HelmError(done.stdout)
    if done.returncode != 0:
        raise BrokerError(done.stderr)
    return done.stdout


class _Result(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in ("out", "err", "stdout", "stderr")]


class _TemplateOptions(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_char_p) for name in ("name", "version", "chart", "namespace", "kube_version")),
        *((name, ctypes.c_int) for name in ("dependency_update", "skip_crds")),
        *((name, ctypes.c_char_p) for name in ("values", "set_files", "values_files")),
        *((name, ctypes.c_char_p) for name in ("cert_file", "key_file", "ca_file")),
        *((name, ctypes.c_int) for name in ("insecure_skip_tls_verify", "plain_http")),
        ("keyring", ctypes.c_char_p),
        ("debug", ctypes.c_int),
        ("repository_config", ctypes.c_char_p),
    ]


class _LintOptions(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("strict", ctypes.c_int), ("quiet", ctypes.c_int)]


def _unpack(folder: Path) -> None:
    """Take the library of this machine's system out of its jar, as `helm.so`, and drop all jars."""
    for jar in folder.glob("*.jar"):
        with zipfile.ZipFile(jar) as archive:
            for member in archive.namelist():
                if member.startswith("helm-") and member.endswith((".so", ".dylib")):
                    (folder / "helm.so").write_bytes(archive.read(member))
        jar.unlink()


def _library() -> ctypes.CDLL:
    folder = download_once(_POM, _NAME, "Helm (31 MB, once)", lambda text: say_on_stderr(text, _NAME), _unpack)
    found = ctypes.CDLL(str(folder / "helm.so"))
    for function in (found.Template, found.Lint):
        function.restype = _Result
    return found


def main(arguments: Sequence[str]) -> None:
    """Call Helm once and print what it makes, or what it has against the chart or the values."""
    command, *values = arguments
    helm = _library()
    if command == "lint":
        result = helm.Lint(ctypes.byref(_LintOptions(str(CHART).encode(), strict=1)))
    elif command != "template" or any("," in value for value in values):
        raise SystemExit(f"template FILE... or lint, and no comma in a file's path: {' '.join(arguments)}")
    else:
        options = _TemplateOptions(name=b"simstream", chart=str(CHART).encode(), namespace=b"default")
        options.values_files = ",".join(values).encode()
        result = helm.Template(ctypes.byref(options))
    text = (result.err or result.out).decode()
    print(text, end="")  # noqa: T201 - a command's output
    if result.err or (command == "lint" and text.endswith("Failed: true")):
        raise SystemExit(_REFUSED)


if __name__ == "__main__":
    main(sys.argv[1:])
