"""Fingerprints pages and texts: fingerprints and sketches come out."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from zlib import crc32

import numba
import numpy as np
from numpy.typing import NDArray

from simstream.closing import Closing
from simstream.hash_secret import Secret
from simstream.kernels.jit import sources_digest
from simstream.kernels.text.fingerprint import (
    FingerprintResult,
    FingerprintWork,
    RecipeRules,
    fingerprint_batch,
    make_result,
    make_work,
    weigh_page,
)
from simstream.kernels.text.frequencies import WordCounts, count_batch, count_variants, make_counts, with_more_room
from simstream.kernels.text.modes import ACCURATE, FULL, SEARCH
from simstream.kernels.text.other_hashes import FNV1, JENKINS, MMH3
from simstream.kernels.text.simhash import DistinctWords
from simstream.kernels.text.trie import Points
from simstream.kernels.text.variants import RecipeVariant, find_words, fingerprint_variants, weigh_words
from simstream.kernels.text.words import PageWords
from simstream.model import REASONS, U64, FingerprintColumns, Page, PageKind
from simstream.text import dictionary, probes, weights
from simstream.text import unicode_tables as tables
from simstream.text.composition import composition_digests, read_text
from simstream.text.dictionary import Mode
from simstream.text.extraction.extract import extract_one, is_plain
from simstream.text.extraction.extractor import extraction_digests, extraction_process, make_extractor
from simstream.text.extraction.pool import MEMORY_BYTES, TIMEOUT_S
from simstream.text.extraction.prose import prose
from simstream.text.keywords import heaviest_tags
from simstream.text.recipe import Recipe, recipe_id
from simstream.text.too_short import mark_too_short
from simstream.text.user_words import WordChange, read_changes

_REASON_NUMBER: Final = {reason: number for number, reason in enumerate(REASONS)}


class Fingerprinter(Closing):
    """Applies one recipe. Thread-safe: several threads may call any method at once; its long kernels hold no GIL.

    `cache` is a folder for the dictionary and the weights, which are built once. `workers` is the number of
    processes for HTML; 0 extracts in this process. They start at the first HTML page and get `timeout_s` seconds of
    CPU a page and `memory_bytes` each. With a `clock` (seconds), hosts of slow pages rest; see
    `extraction/slow_hosts`. A recipe with `extract = "fast"` has no such processes. `say` is called with a sentence
    before work that takes seconds. `secret` places words in tables, by default the process's secret; no result
    depends on it.

    `recipe_id` is the recipe's id. `sketch_words` is the number of 64-bit words of the column `sketch`, which has
    the further fingerprints and then the sketch. Raises InputMissing without jieba's tables. Cost: about 0.1 s with
    a full cache, else ten seconds, without the kernels that only HTML needs: the first HTML page waits for them.
    """

    def __init__(
        self,
        recipe: Recipe,
        cache: Path,
        *,
        workers: int = 1,
        timeout_s: float = TIMEOUT_S,
        memory_bytes: int = MEMORY_BYTES,
        clock: Callable[[], float] | None = None,
        say: Callable[[str], None] | None = None,
        secret: Secret | None = None,
    ) -> None:
        self.recipe = recipe
        self.sketch_words = recipe.sketch_words
        first = not compiled(cache)
        if say is not None and first:
            say("compiling kernels and building tables, once: this takes ten seconds, or more on a busy machine")
        with contextlib.ExitStack() as stack:
            self._compiling = stack.enter_context(extraction_process(recipe.extract)) if first else None
            self._dictionary = dictionary.load(cache, changes_of(recipe))
            self._weights = weights.load(recipe, self._dictionary, cache, secret)
            self._rules = RecipeRules(
                np.uint64(recipe.seed),
                recipe.hmm,
                recipe.min_words,
                recipe.sketch_characters,
                recipe.top,
                recipe.fingerprints - 1,
                recipe.sketch_fill == "mixed",
            )
            self._variant = _variant(recipe)
            self._kernel = fingerprint_batch
            self.recipe_id = self._identify()
            stack.pop_all()
        self._extractor = make_extractor(recipe.extract, workers, timeout_s, memory_bytes, clock)
        _mark_compiled(cache)

    @property
    def pages_set_aside(self) -> int:
        """Return how many pages were `extract_failed` without a try, because earlier pages of their host were too
        slow."""
        return self._extractor.set_aside

    @property
    def is_compiling(self) -> bool:
        """Whether the kernels that only HTML needs are still being compiled. The first HTML page waits for them."""
        return self._compiling is not None and self._compiling.is_running

    def columns(self, pages: Sequence[Page]) -> FingerprintColumns:
        """Fingerprint pages, and return their columns, one row each.

        Changes the pages: `text` replaces HTML. Unreadable and too short pages get `kind`, `reason` and `detail`;
        too long ones get `cut`. Raises ValueError once closed.
        """
        utf8, offsets = self._encoded(pages)
        result = self._fingerprint_pages(pages, utf8, offsets)
        mark_too_short(pages, result.words, self.recipe.min_words)
        return _to_columns(pages, result)

    def count(self, pages: Sequence[Page]) -> WordCounts:
        """Count in how many of the pages each word occurs; pages with too few words do not count.

        Changes the pages as `columns` does. Raises ValueError once closed.
        """
        utf8, offsets = self._encoded(pages)
        longest, n = int(np.diff(offsets).max(initial=0)), len(utf8)
        known = (utf8, offsets, self._weights.lexicon, self._dictionary.trie, self._dictionary.hmm, self._rules)
        room = (n // 16 + 64, n // 2 + 1024, 1 << max(12, (n // 8).bit_length()))
        counts, page = make_counts(*room, self._weights.lexicon.secret), 0
        while True:
            work = make_work(longest, 0)
            if self._variant is None:
                page = count_batch(*known, work, counts, page)
            else:
                page = count_variants(*known, self._variant, work, counts, page)
            if page == len(pages):
                return counts
            counts = with_more_room(counts)

    def texts(self, texts: Sequence[str]) -> tuple[U64, U64, NDArray[np.uint32]]:
        """Return the fingerprints (n,), sketches (n, sketch_words) and numbers of distinct words (n,) of n texts.

        A text with fewer words than the recipe demands has fingerprint and sketch 0.
        """
        parts = [self._encode(text)[0] for text in texts]
        return self._run(*_join(parts), self._rules)

    def tokens(self, text: str) -> list[str]:
        """Return jieba's tokens of the folded text, which is what the recipe's words are made of.

        In accurate mode the tokens, joined, are the folded text.
        """
        return self.jieba_tokens(read_text(text, self.recipe))

    def jieba_tokens(self, text: str, mode: Mode | None = None, hmm: bool | None = None) -> list[str]:
        """Return exactly what jieba gives for the text as it is written, which is not folded first.

        Mode and HMM are the recipe's unless given; the recipe's own words count as in jieba's dictionary.
        """
        use_hmm = self.recipe.hmm if hmm is None else hmm
        return dictionary.tokens(text, self._dictionary, use_hmm, mode or self.recipe.mode)

    def tags(self, text: str, top: int) -> list[str]:
        """Return the `top` words that jieba's `extract_tags` picks as the text's topics, the heaviest first."""
        return heaviest_tags(self.jieba_tokens(text, "accurate"), top)

    def weighted(self, text: str) -> list[tuple[str, int, float]]:
        """Return the distinct words, casefolded, each with its occurrences and its weight in this text.

        They come by falling weight; equal ones in the order of the text. Reads only the part that counts for a
        fingerprint.
        """
        points, found, distinct, n = self._weigh(np.frombuffer(self._encode(text)[0], np.uint8))
        lower = (self._weights.lexicon.traits[points % tables.POINTS] & 0x1FFFFF).tobytes()
        first = distinct.first[:n]
        spans = zip(found.start[first].tolist(), found.end[first].tolist(), strict=True)
        words = [lower[4 * start : 4 * end].decode("utf-32-le") for start, end in spans]
        scaled = (distinct.weight[:n] / weights.ONE).tolist()
        rows = list(zip(words, distinct.times[:n].tolist(), scaled, strict=True))
        return sorted(rows, key=lambda row: -row[2])

    def _weigh(self, utf8: NDArray[np.uint8]) -> tuple[Points, PageWords, DistinctWords, int]:
        """Return the words of one page, its distinct words with a weight, and their number."""
        work, lexicon = make_work(len(utf8), 0), self._weights.lexicon
        tables_of = (lexicon, self._dictionary.trie, self._dictionary.hmm, self._rules)
        if self._variant is None:
            n = weigh_page(utf8, *tables_of, work)
            return work.points[: len(utf8)], work.words, work.distinct, n
        points, found, m, _ = find_words(utf8, *tables_of, self._variant, work)
        return points, found, *weigh_words(found, m, lexicon)

    def close(self) -> None:
        """End the extraction processes. May be called twice."""
        if self._compiling is not None:
            self._compiling.close()
        self._extractor.close()

    def _identify(self) -> str:
        """Return the recipe's id. Runs, and so compiles, the kernels of text.

        A parser may find otherwise in another version, so what it finds in a page counts; our own kernels of HTML
        have a number (`article.RULES`).
        """
        texts = [*probes.TEXTS]
        if self.recipe.extract != "fast":
            extracted = extract_one(probes.HTML, "text/html")
            texts.append(self.counting(extracted.text, "text/html") or extracted.reason)
        utf8, offsets = _join([text.encode("utf-8", "surrogatepass") for text in texts])
        result = self._run(utf8, offsets, self._rules._replace(min_words=1))
        output = b"".join(array.tobytes() for array in result)
        digests = (
            *(tables.digest(self.recipe.script), self._weights.digest, self._dictionary.key),
            *composition_digests(self.recipe.normalization),
            *extraction_digests(self.recipe.extract),
        )
        return recipe_id(self.recipe, digests, output)

    def _encoded(self, pages: Sequence[Page]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Extract the pages, and gather their UTF-8."""
        self.extract(pages)
        return self._gather(pages)

    def extract(self, pages: Sequence[Page]) -> None:
        """Give readable pages with `raw` the text that counts, or say why there is none. Raises ValueError once
        closed."""
        waiting = [p for p in pages if p.kind == PageKind.READABLE and p.text is None]
        raws = [(p.raw if p.raw is not None else "", p.content_type) for p in waiting]
        urls = [p.url for p in waiting]
        if raws and self._compiling is not None:
            self._compiling.wait()
        for page, extracted in zip(waiting, self._extractor.extract(raws, urls) if raws else (), strict=True):
            page.text, page.raw = self.counting(extracted.text, page.content_type), None
            if extracted.text is None:
                page.kind, page.reason, page.detail = PageKind.UNREADABLE, extracted.reason, extracted.detail

    def counting(self, text: str | None, content_type: str) -> str | None:
        """Return the part of an extracted text that counts, by its type of content; plain text counts as it is, and
        so does what the fast extraction finds."""
        if text is None or self.recipe.extract != "prose" or is_plain(content_type):
            return text
        return prose(text)

    def _gather(self, pages: Sequence[Page]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the UTF-8 of readable pages, cut to the part that counts, and where each begins; other pages are
        empty."""
        parts = []
        for page in pages:
            if page.kind == PageKind.READABLE and page.text is not None:
                part, page.cut = self._encode(page.text)
                parts.append(part)
            else:
                parts.append(b"")
        return _join(parts)

    def _encode(self, text: str) -> tuple[bytes, bool]:
        """Return UTF-8 of at most `max_text_bytes`, cut at a character, and whether it was cut."""
        limit = self.recipe.max_text_bytes
        data = text[: limit + 1].encode("utf-8", "surrogatepass")
        if len(data) <= limit:
            return data, False
        end = limit
        while data[end] & 0xC0 == 0x80:
            end -= 1
        return data[:end], True

    def _fingerprint_pages(
        self, pages: Sequence[Page], utf8: NDArray[np.uint8], offsets: NDArray[np.int64]
    ) -> FingerprintResult:
        """Do what `_run` does, but let a page on which the kernel fails cost only itself."""
        try:
            return self._run(utf8, offsets, self._rules)
        except Exception:  # noqa: BLE001 - any error: the loop below finds the page and names it
            result = make_result(len(pages), self.sketch_words)
        for i, page in enumerate(pages):
            try:
                one = self._run(utf8[offsets[i] : offsets[i + 1]], offsets[i : i + 2] - offsets[i], self._rules)
            except Exception as error:  # noqa: BLE001 - the page's dead letter names the error
                page.kind, page.reason = PageKind.UNREADABLE, "kernel_error"
                page.detail = f"the kernel failed on this page ({type(error).__name__}: {error})"
                continue
            result.fingerprints[i], result.sketches[i], result.words[i] = (column[0] for column in one)
        return result

    def _run(self, utf8: NDArray[np.uint8], offsets: NDArray[np.int64], rules: RecipeRules) -> FingerprintResult:
        """Run one kernel call over n pages, with its own working memory."""
        longest = int(np.diff(offsets).max(initial=0))
        work: FingerprintWork = make_work(longest, self.recipe.sketch_bits)
        result = make_result(len(offsets) - 1, self.sketch_words)
        known = (utf8, offsets, self._weights.lexicon, self._dictionary.trie, self._dictionary.hmm, rules)
        if self._variant is None:
            self._kernel(*known, work, result)
        else:
            fingerprint_variants(*known, self._variant, work, result)
        return result


def changes_of(recipe: Recipe) -> tuple[WordChange, ...]:
    """Return the changes to jieba's dictionary, folded as texts are, so that folded texts match them."""
    changes = read_changes(recipe.user_dictionaries, recipe.add_words, recipe.remove_words)
    return tuple(WordChange(read_text(word, recipe), frequency) for word, frequency in changes)


def _variant(recipe: Recipe) -> RecipeVariant | None:
    """Return the rules for the kernels besides the fused one; None if the fused kernel does it all."""
    asked = RecipeVariant(
        {"accurate": ACCURATE, "search": SEARCH, "full": FULL}[recipe.mode],
        recipe.least_chars,
        {"mmh3": MMH3, "fnv1": FNV1, "jenkins": JENKINS}[recipe.hash],
        recipe.shingle_words if recipe.features == "shingles" else 0,
        bool(recipe.ties),
    )
    return None if asked == RecipeVariant(ACCURATE, 1, MMH3, 0, False) else asked


def compiled(cache: Path) -> bool:
    """Whether these kernels were compiled before with this cache folder. It is a hint, no promise."""
    return _mark(cache).exists()


def _mark(cache: Path) -> Path:
    """Return the path of the mark. Its name includes the kernels' folder: a second installation has none yet,
    though it may share the cache."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    place = crc32(os.fsencode(str(fingerprint_batch.stats.cache_path)))
    return cache / f"kernels-{sources_digest()}-{numba.__version__}-{python}-{place:08x}"


def _mark_compiled(cache: Path) -> None:
    with contextlib.suppress(OSError):  # without the mark it only logs the sentence again
        cache.mkdir(parents=True, exist_ok=True)
        _mark(cache).touch()


def _join(parts: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return all parts in one array, and n + 1 offsets."""
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return np.frombuffer(bytearray().join(parts), np.uint8), offsets


def _blob(parts: list[bytes]) -> tuple[bytes, NDArray[np.uint32]]:
    """Return the strings one after another, and where each ends."""
    return b"".join(parts), np.cumsum([len(part) for part in parts], dtype=np.uint32)


def _to_columns(pages: Sequence[Page], result: FingerprintResult) -> FingerprintColumns:
    n = len(pages)
    ids, id_ends = _blob([page.id.encode() for page in pages])
    urls, url_ends = _blob([page.url.encode() if page.url else b"" for page in pages])
    identities = b"".join([page.identity for page in pages])
    return FingerprintColumns(
        offset=np.fromiter((page.offset for page in pages), np.int64, n),
        kind=np.fromiter((page.kind for page in pages), np.uint8, n),
        reason=np.fromiter((_REASON_NUMBER[page.reason] for page in pages), np.uint8, n),
        time=np.fromiter((page.time for page in pages), np.int64, n),
        identity=np.frombuffer(identities, np.uint64).reshape(n, 2),
        fingerprint=result.fingerprints,
        sketch=result.sketches,
        words=result.words,
        id_ends=id_ends,
        url_ends=url_ends,
        ids=ids,
        urls=urls,
    )
