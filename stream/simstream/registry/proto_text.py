"""Makes file descriptors of the text of .proto files, by Protobuf's own compiler, in a process of its own.

Some registries give a Protobuf schema only as it was registered, and that may be the text. The text comes from
strangers: the process has little time and memory, and sees no file but those of the schema.
"""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from simstream.errors import RegistryFailed
from simstream.wire.registered import RegisteredSchema, bad_schema

CPU_S: Final = 5
"""The seconds of CPU time that the compiler may take for a schema."""
MEMORY_BYTES: Final = 512 << 20
MAX_MADE_BYTES: Final = 8 << 20
"""The greatest size of what it writes."""
_WALL_S: Final = 60.0
_PROGRAM: Final = f"""
import json, resource, sys
sys.path[:] = json.loads(sys.argv.pop())
from grpc_tools import protoc
for kind, most in (("CPU", {CPU_S}), ("AS", {MEMORY_BYTES}), ("FSIZE", {MAX_MADE_BYTES})):
    resource.setrlimit(getattr(resource, f"RLIMIT_{{kind}}"), (most, most + (kind == "CPU")))
sys.exit(protoc.main(sys.argv))
"""
_FROM_OUTSIDE: Final = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM})
"""Signals of another process, or of a system without memory. At its limit of CPU time the compiler gets SIGXCPU:
the hard limit, with its SIGKILL, is a second later. A crash is the schema's fault."""
_NAME: Final = re.compile(r"([\w-][\w.-]{0,99}(?<!\.proto)/){0,16}[\w-][\w.-]{0,99}\.proto", re.ASCII)
"""The name of a file that another one may import: a path downwards."""


def with_descriptors(schema: RegisteredSchema) -> RegisteredSchema:
    """Return the schema with file descriptors in base 64, which it has unless it is text.

    Raises BadValueError if the text is malformed, or if the compiler is not installed; RegistryFailed if the
    compiler cannot be started, is killed, or cannot write. Cost: 0.3 s for a text.
    """
    if "{" not in schema.text:
        return schema
    spec = find_spec("grpc_tools")
    if spec is None or not spec.submodule_search_locations:
        raise bad_schema(
            "the registry gives the text of a .proto file, and grpcio-tools is not installed: run pip install "
            "'simstream[protoc]'"
        )
    main = "main.proto"
    while main in dict(schema.references):
        main = f"x{main}"
    try:
        with tempfile.TemporaryDirectory(prefix="simstream-") as name:
            folder = Path(name)
            _write(folder / "in", ((main, schema.text), *schema.references))
            made = _compile(folder, main, Path(spec.submodule_search_locations[0]) / "_proto")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _does_not_work(f"{type(error).__name__}: {error}") from None
    return _described(schema, main, made)


def _does_not_work(why: str) -> RegistryFailed:
    what = f"the compiler of Protobuf does not work ({why})"
    return RegistryFailed(what[:300], "see whether memory, processes and the disk of temporary files last")


def _write(folder: Path, files: tuple[tuple[str, str], ...]) -> None:
    """Write the files of a schema. Raises BadValueError for a name that leads elsewhere."""
    for name, text in files:
        if not _NAME.fullmatch(name):
            raise bad_schema(f"the schema needs {name[:200]!r}, which is no path of a .proto file")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace")


def _compile(folder: Path, main: str, known: Path) -> bytes:
    """Return the descriptors of a file and of all that it imports. Raises BadValueError, RegistryFailed."""
    said, made = folder / "said", folder / "made"
    given = [f"-I{folder / 'in'}", f"-I{known}", "--include_imports", f"--descriptor_set_out={made}", main]
    with said.open("wb") as output:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _PROGRAM, *given, json.dumps(sys.path)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            timeout=_WALL_S,
            check=False,
            process_group=0,  # Ctrl-C is no fault of the schema
        )
    if done.returncode or not made.is_file():
        with said.open(encoding="utf-8", errors="replace") as output:
            why = " ".join(output.read(400).replace(f"{folder / 'in'}/", "").replace(f"{folder}/", "").split())
        ended = f"it ends with {done.returncode}"
        if -done.returncode in _FROM_OUTSIDE or (done.returncode >= 0 and not why):
            raise _does_not_work(ended)
        raise bad_schema(f"Protobuf's compiler refuses the schema: {why or ended}")
    return made.read_bytes()


def _described(schema: RegisteredSchema, main: str, made: bytes) -> RegisteredSchema:
    from google.protobuf import descriptor_pb2

    files = {file.name: file for file in descriptor_pb2.FileDescriptorSet.FromString(made).file}
    texts = {name: base64.b64encode(file.SerializeToString()).decode() for name, file in files.items()}
    own = texts.pop(main)
    return RegisteredSchema(schema.kind, own, tuple(texts.items()))
