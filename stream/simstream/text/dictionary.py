"""Loads jieba's dictionary and HMM tables as arrays, and keeps them in a cache file.

This module never imports jieba: it only reads the tables in jieba's package. It does not use jieba's own cache
(`jieba.cache` in the shared temporary folder), which jieba loads without a check against the dictionary.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import math
import mmap
import os
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import mmh3
import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.errors import InputError, InputMissing
from simstream.kernels.text.modes import full_tokens, search_tokens, separate
from simstream.kernels.text.tokenize import MIN_FLOAT, HiddenMarkovModel, cut, make_scratch
from simstream.kernels.text.trie import I32, NO_WORD, Points, Trie, build
from simstream.text.user_words import WordChange, WordFrequencies, apply

FORMAT = 1
"""The format of the cache file and of the derived arrays; part of the key."""
_MAGIC = b"simstream dictionary\n"
_PREFIX = len(_MAGIC) + 16
Mode = Literal["accurate", "search", "full"]
_TABLES = ("dict.txt", "finalseg/prob_start.py", "finalseg/prob_trans.py", "finalseg/prob_emit.py")
_STATES = "BMES"
_ALIGN = 64


@dataclass(frozen=True)
class Dictionary:
    """The tables that define segmentation.

    `key` has 32 hex digits of a hash over the contents of all four tables, the format, and the user's changes.
    """

    trie: Trie
    hmm: HiddenMarkovModel
    key: str
    path: Path
    """The path of `dict.txt`."""
    changes: tuple[WordChange, ...] = ()
    """The words that a user added and removed, in this order."""

    def frequencies(self) -> dict[str, int]:
        """Return every word with its latest frequency. Cost: about 0.3 s, with changes 1 s."""
        return _changed(self.path.read_bytes(), self.changes).words


def load(cache: Path, changes: tuple[WordChange, ...] = ()) -> Dictionary:
    """Return the dictionary of the installed jieba with a user's changes, built once per `cache` folder.

    A damaged cache file is built again; if the folder cannot be written, the arrays stay in memory only. Raises
    InputMissing without jieba's tables, and InputError if `dict.txt` has a line that jieba would refuse. Cost:
    about 20 ms if the cache has it, else about 1.5 s (once the kernels are compiled).
    """
    folder = _jieba_folder()
    key = _key(folder, changes)
    file = cache / f"dictionary-{key}.bin"
    words = folder / "dict.txt"
    arrays = _read_cache(file, key)
    if arrays is None:
        trie, hmm = _build_trie(_changed(words.read_bytes(), changes)), _build_hmm(folder / "finalseg")
        _write_cache(file, _encode(key, _named(trie, hmm)))
        arrays = _read_cache(file, key)
        if arrays is None:
            return Dictionary(trie, hmm, key, words, changes)
    trie, hmm = _from_named(arrays)
    return Dictionary(trie, hmm, key, words, changes)


def tokens(text: str, dictionary: Dictionary, hmm: bool = True, mode: Mode = "accurate") -> list[str]:
    """Return jieba's tokens of `text`. Tokens of accurate mode join to `text` again; tokens of the other modes
    overlap.

    Full mode has empty tokens beside white space, as jieba has, and uses no HMM. Lone surrogates count as
    characters. Cost: linear in the text, in time and memory. Most of it makes strings, so kernels that need none
    should call `cut`.
    """
    try:
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        separable = "\0" not in text
    except UnicodeEncodeError:
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        separable = False
    points, ends, count = token_points(points, dictionary, hmm, mode)
    if count and separable:  # split makes strings three times as fast as slices
        separated: bytes = separate(points, ends, count).tobytes()
        return separated.decode("utf-32-le").split("\0")
    bounds = [0, *ends[:count].tolist()]
    cut_up = points.tobytes()
    return [cut_up[4 * start : 4 * end].decode("utf-32-le", "surrogatepass") for start, end in pairwise(bounds)]


def token_points(points: Points, dictionary: Dictionary, hmm: bool, mode: Mode) -> tuple[Points, I32, int]:
    """Return the tokens of the text `points`: their characters, the end of each token, and their number."""
    if mode == "full":
        return full_tokens(points, len(points), dictionary.trie)  # type: ignore[no-any-return]
    ends = np.empty(len(points), np.int32)
    slots = np.empty(len(points), np.int32)
    scratch = make_scratch(len(points))
    count = cut(points, len(points), dictionary.trie, dictionary.hmm, hmm, scratch, ends, slots)
    if mode == "search":
        return search_tokens(points, ends, count, dictionary.trie)  # type: ignore[no-any-return]
    return points, ends, count


def _jieba_folder() -> Path:
    spec = importlib.util.find_spec("jieba")  # finds the package without running it
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in map(Path, folders):
        if all((folder / table).is_file() for table in _TABLES):
            return folder
    raise InputMissing("jieba's dictionary is not installed", "run `pip install jieba==0.42.1`")


def _key(folder: Path, changes: tuple[WordChange, ...]) -> str:
    digest = hashlib.blake2b(f"simstream dictionary {FORMAT}".encode(), digest_size=16)
    for table in _TABLES:
        content = (folder / table).read_bytes()
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    digest.update(msgspec.json.encode(changes) if changes else b"")
    return digest.hexdigest()


def _read_words(content: bytes) -> tuple[dict[str, int], int]:
    """Return the frequency of each word, and the total over all lines. As in jieba, a repeated word counts twice in
    the total."""
    words: dict[str, int] = {}
    total = 0
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        try:
            word, text = line.strip().decode().split(" ")[:2]
            frequency = int(text)
        except ValueError as error:
            raise InputError(
                f"line {number} of jieba's dict.txt is not a word with a frequency", "install jieba 0.42.1 again"
            ) from error
        words[word] = frequency
        total += frequency
    return words, total


def _changed(content: bytes, changes: tuple[WordChange, ...]) -> WordFrequencies:
    words, total = _read_words(content)
    return apply(words, total, changes) if changes else WordFrequencies(words, total, set())


def _build_trie(found: WordFrequencies) -> Trie:
    frequencies, total, taken_out = found
    # For jieba an entry with frequency 0 is no word, only the beginning of others.
    words = sorted({word for word, frequency in frequencies.items() if word and frequency > 0} | taken_out)
    flat = np.frombuffer("".join(words).encode("utf-32-le"), np.uint32)
    ends = np.cumsum(np.fromiter(map(len, words), np.int64, len(words)))
    log_total = math.log(total)
    # Python's own logarithm, as in jieba: another library's may differ in the last bit and decide a tie
    # differently.
    weight = [math.log(frequencies[word]) - log_total if frequencies[word] else NO_WORD for word in words]
    split = np.fromiter((word in taken_out for word in words), np.bool_, len(words))
    return build(flat, ends, np.array(weight, np.float64), log_total, split)


def _build_hmm(folder: Path) -> HiddenMarkovModel:
    start_p, trans_p, emit_p = (_run(folder / f"prob_{name}.py").P for name in ("start", "trans", "emit"))
    start = np.array([start_p[state] for state in _STATES])
    trans = np.array([[trans_p[a].get(b, MIN_FLOAT) for b in _STATES] for a in _STATES])
    emit = np.full((0x10000, 4), MIN_FLOAT)
    for column, state in enumerate(_STATES):
        points = np.fromiter(map(ord, emit_p[state]), np.int64, len(emit_p[state]))
        emit[points, column] = np.fromiter(emit_p[state].values(), np.float64, len(points))
    return HiddenMarkovModel(start, trans, emit)


def _run(path: Path) -> ModuleType:
    """Run one of jieba's table modules by itself, and return its table. An import by name would run the whole
    package."""
    spec = importlib.util.spec_from_file_location(f"_simstream_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputMissing(f"{path} cannot be read", "run `pip install jieba==0.42.1`")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _named(trie: Trie, hmm: HiddenMarkovModel) -> dict[str, NDArray[Any]]:
    arrays = trie._asdict() | hmm._asdict() | {"log_total": np.array([trie.log_total])}
    return {name: array for name, array in arrays.items() if len(array)}  # `split` is mostly empty


def _from_named(arrays: dict[str, NDArray[Any]]) -> tuple[Trie, HiddenMarkovModel]:
    log_total = float(arrays.pop("log_total")[0])
    hmm = HiddenMarkovModel(**{field: arrays.pop(field) for field in HiddenMarkovModel._fields})
    split = arrays.pop("split", np.empty(0, np.uint8))
    return Trie(**arrays, split=split, log_total=log_total), hmm


class _TableColumn(msgspec.Struct):
    name: str
    dtype: str
    shape: list[int]
    offset: int
    """Bytes from the beginning of the arrays, a multiple of 64."""


class _CacheHeader(msgspec.Struct):
    key: str
    columns: list[_TableColumn]


def _encode(key: str, arrays: dict[str, NDArray[Any]]) -> bytes:
    """Return a cache file: magic, digest of the rest, length of the header, header, arrays; both aligned."""
    body = bytearray()
    columns = []
    for name, array in arrays.items():
        columns.append(_TableColumn(name, array.dtype.str, list(array.shape), len(body)))
        body += array.tobytes()
        body += bytes(-len(body) % _ALIGN)
    header = msgspec.json.encode(_CacheHeader(key, columns))
    content = len(header).to_bytes(4, "little") + header
    content += bytes(-(_PREFIX + len(content)) % _ALIGN) + body
    return _MAGIC + mmh3.mmh3_x64_128_digest(content) + content


def _decode(content: mmap.mmap, key: str) -> dict[str, NDArray[Any]] | None:
    """Return the arrays of a cache file, in place; None if anything in it is wrong."""
    head, checked = content[:_PREFIX], memoryview(content)[_PREFIX:]
    if head != _MAGIC + mmh3.mmh3_x64_128_digest(checked):
        return None
    begin = _PREFIX + 4 + int.from_bytes(checked[:4], "little")
    header = msgspec.json.decode(content[_PREFIX + 4 : begin], type=_CacheHeader)
    if header.key != key:
        return None
    begin += -begin % _ALIGN
    return {column.name: _array(content, begin, column) for column in header.columns}


def _array(content: mmap.mmap, begin: int, column: _TableColumn) -> NDArray[Any]:
    flat = np.frombuffer(content, np.dtype(column.dtype), math.prod(column.shape), begin + column.offset)
    return flat.reshape(column.shape)


def _write_cache(file: Path, content: bytes) -> None:
    """Put the file in place at once or not at all."""
    # Without the cache everything works, only slower. So a folder that cannot be written is no error here.
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=file.name)
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            os.replace(temporary, file)
        except OSError:
            os.unlink(temporary)
            raise


def _read_cache(file: Path, key: str) -> dict[str, NDArray[Any]] | None:
    """Return the arrays of a cache file, mapped; None if there is no such file, or if it cannot be trusted."""
    try:
        with open(file, "rb") as source:
            # The mapping is private and writable: for the kernels read-only arrays are other types.
            content = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError):  # ValueError: the file is empty
        return None
    return _decode(content, key)
