"""Near pairs and their clusters as slowly and plainly as can be: every fingerprint against every other."""

from __future__ import annotations

from collections.abc import Iterable


def pairs(fingerprints: Iterable[int], distance: int) -> list[list[int]]:
    """All pairs [lesser, greater] of distinct fingerprints within a distance, in order."""
    values = sorted(set(fingerprints))
    return [[a, b] for i, a in enumerate(values) for b in values[i + 1 :] if (a ^ b).bit_count() <= distance]


def clusters(fingerprints: Iterable[int], distance: int) -> list[list[int]]:
    """What is connected by those pairs, without single ones: members ascending, clusters by their least member."""
    label = {value: value for value in fingerprints}
    for a, b in pairs(label, distance):
        old, new = max(label[a], label[b]), min(label[a], label[b])
        label = {value: new if own == old else own for value, own in label.items()}
    groups = ([value for value in sorted(label) if label[value] == own] for own in sorted(set(label.values())))
    return [group for group in groups if len(group) > 1]


def nearest(queries: Iterable[int], corpus: Iterable[int], distance: int) -> list[list[int]]:
    """[query, nearest, distance] of each distinct query with a match; of equally near ones the least."""
    values, found = sorted(set(corpus)), []
    for query in sorted(set(queries)):
        near = [((query ^ value).bit_count(), value) for value in values]
        bits, value = min(near, default=(65, 0))
        if bits <= distance:
            found.append([query, value, bits])
    return found
