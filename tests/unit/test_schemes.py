"""The benchmark of the four schemes: each finds what comparing all with all finds, and the picture shows each."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.bench import schemes
from tests.bench.bench_index import queries


def test_all_schemes_find_every_match_and_nothing_else() -> None:
    column = np.unique(np.random.default_rng(3).integers(1, 1 << 64, 60, np.uint64))
    asked = np.sort(queries(column, 40, schemes.DISTANCE + 2))
    expected = [
        (number, value)
        for number, query in enumerate(asked.tolist())
        for value in column.tolist()
        if (query ^ value).bit_count() <= schemes.DISTANCE
    ]
    made = schemes.schemes(column)
    assert set(made) == set(schemes.NAMES)
    assert 20 < len(expected) < 40
    for name, make in made.items():
        assert schemes.pairs(make().find(asked)) == sorted(expected), name


def test_the_variants_are_all_words_of_at_most_three_bits() -> None:
    masks = schemes.masks()
    assert len(set(masks.tolist())) == len(masks) == schemes.VARIANTS == 43_745
    assert int(np.bitwise_count(masks).max()) == schemes.DISTANCE


def test_the_picture_names_every_scheme_and_is_the_same_again() -> None:
    rows = [
        schemes.SchemeResult(name, 1 << bits, 1.0 * bits if name != "stored" or bits < 10 else None, bits << 20)
        for bits in (8, 10)
        for name in schemes.NAMES
    ]
    picture = schemes.draw(rows)
    assert all(name.text in picture for name in schemes.NAMES.values())
    assert picture == schemes.draw(rows)
    white = '<rect width="100%" height="100%" fill="#ffffff"/>'
    committed = (Path(__file__).parents[2] / "docs" / "pictures" / "schemes.svg").read_text("utf-8")
    assert (white in picture, white in committed) == (True, True)  # a page may be dark
