"""Makes arrays of jieba's dictionary and HMM tables, and keeps them in a cache file."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.errors import InputMissing
from simstream.kernels.text.modes import full_tokens, search_tokens, separate
from simstream.kernels.text.tokenize import MIN_FLOAT, HiddenMarkovModel, cut, make_scratch
from simstream.kernels.text.trie import I32, NO_WORD, NODE, Points, Trie, build
from simstream.text import jieba_tables
from simstream.text.cached_file import Arrays, cached
from simstream.text.user_words import WordChange, WordFrequencies, apply

FORMAT = 1
"""The format of the derived arrays; part of the key, which recipes' ids contain."""
KEY: Final = "312707430a56373432e43feb319a5d53"
"""The key of the dictionary without changes."""
Mode = Literal["accurate", "search", "full"]
_TABLES = ("dict.txt", "finalseg/prob_start.py", "finalseg/prob_trans.py", "finalseg/prob_emit.py")
_STATES = "BMES"
Probabilities = TypeVar("Probabilities")


@dataclass(frozen=True)
class Dictionary:
    """The tables that define segmentation.

    `key` has 32 hex digits of a hash over the contents of all four tables, the format, and the user's changes.
    """

    trie: Trie
    hmm: HiddenMarkovModel
    key: str
    changes: tuple[WordChange, ...] = ()
    """The words that a user added and removed, in this order."""

    def frequencies(self) -> dict[str, int]:
        """Return every word with its latest frequency. Cost: about 0.3 s, with changes 1 s."""
        return _changed(self.changes).words


def load(cache: Path, changes: tuple[WordChange, ...] = ()) -> Dictionary:
    """Return jieba's dictionary with a user's changes, built once per `cache` folder.

    A damaged cache file is built again; if the folder cannot be written, the arrays stay in memory only. Raises
    InputMissing if the shipped tables are not there. Cost: about 20 ms if the cache has it (0.2 s with changes),
    else about 1.5 s (once the kernels are compiled).
    """
    if not jieba_tables.FOLDER.is_dir():
        raise InputMissing(
            f"{jieba_tables.FOLDER} is not a folder", "install simstream as files: it does not run from an archive"
        )
    key = _key(changes)
    arrays = cached(cache, "dictionary", key, lambda: _named(_build_trie(_changed(changes)), _build_hmm()))
    trie, hmm = _from_named(dict(arrays))
    return Dictionary(trie, hmm, key, changes)


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


def _key(changes: tuple[WordChange, ...]) -> str:
    if not changes:
        return KEY
    digest = hashlib.blake2b(f"simstream dictionary {FORMAT}".encode(), digest_size=16)
    for table in _TABLES:
        content = jieba_tables.content(table)
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    digest.update(msgspec.json.encode(changes) if changes else b"")
    return digest.hexdigest()


def _words() -> tuple[dict[str, int], int]:
    """Return the frequency of each word, and the total over all lines. As in jieba, a repeated word counts twice in
    the total."""
    words, frequencies, _ = jieba_tables.columns("dict.txt")
    counts = list(map(int, frequencies))
    return dict(zip(words, counts, strict=True)), sum(counts)


def _changed(changes: tuple[WordChange, ...]) -> WordFrequencies:
    words, total = _words()
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
    logs = {one: math.log(one) - log_total if one else NO_WORD for one in set(frequencies.values())}
    weight = np.fromiter((logs[frequencies[word]] for word in words), np.float64, len(words))
    split = np.fromiter((word in taken_out for word in words), np.bool_, len(words))
    return build(flat, ends, weight, log_total, split)


def _build_hmm() -> HiddenMarkovModel:
    start_p = _probabilities("start", dict[str, float])
    trans_p, emit_p = (_probabilities(name, dict[str, dict[str, float]]) for name in ("trans", "emit"))
    start = np.array([start_p[state] for state in _STATES])
    trans = np.array([[trans_p[a].get(b, MIN_FLOAT) for b in _STATES] for a in _STATES])
    emit = np.full((0x10000, 4), MIN_FLOAT)
    for column, state in enumerate(_STATES):
        points = np.fromiter(map(ord, emit_p[state]), np.int64, len(emit_p[state]))
        emit[points, column] = np.fromiter(emit_p[state].values(), np.float64, len(points))
    return HiddenMarkovModel(start, trans, emit)


def _probabilities(name: str, shape: type[Probabilities]) -> Probabilities:
    """Return the one table of a module of jieba's; as it happens, it is JSON but for the quotation marks."""
    _, _, table = jieba_tables.content(f"finalseg/prob_{name}.py").partition(b"P=")
    return msgspec.json.decode(table.replace(b"'", b'"'), type=shape)


def _named(trie: Trie, hmm: HiddenMarkovModel) -> Arrays:
    """Return all arrays by name; a node as two words of 64 bits."""
    plain = {"nodes": trie.nodes.view(np.int64), "log_total": np.array([trie.log_total])}
    arrays = trie._asdict() | hmm._asdict() | plain
    return {name: array for name, array in arrays.items() if len(array)}  # `split` is mostly empty


def _from_named(arrays: dict[str, NDArray[Any]]) -> tuple[Trie, HiddenMarkovModel]:
    log_total = float(arrays.pop("log_total")[0])
    hmm = HiddenMarkovModel(**{field: arrays.pop(field) for field in HiddenMarkovModel._fields})
    split, nodes = arrays.pop("split", np.empty(0, np.uint8)), arrays.pop("nodes").view(NODE)
    return Trie(**arrays, nodes=nodes, split=split, log_total=log_total), hmm
