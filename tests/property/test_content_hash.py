"""The keyed hash of contents, beside a plain version in Python's unbounded integers."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from simstream.kernels import content_hash
from simstream.kernels.content_hash import keyed_hash

KEYS = [int(key) for key in content_hash._KEYS]
MASK = (1 << 64) - 1


def folded(one: int, other: int) -> int:
    return (one * other & MASK) ^ (one * other >> 64)


def mixed(x: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = (x ^ x >> 33) * factor & MASK
    return x ^ x >> 33


def plain(content: bytes, seed: int) -> int:
    words = [int.from_bytes(content[at : at + 8], "little") for at in range(0, len(content) // 8 * 8, 8)]
    parts = KEYS[:4]
    whole = len(words) // 8 * 8
    for at in range(0, whole, 2):
        lane = at // 2 % 4
        parts[lane] = folded(words[at] ^ KEYS[4 + lane], words[at + 1] ^ parts[lane])
    a, b, c, d = parts
    for word in words[whole:]:
        a = folded(word ^ KEYS[4], a ^ KEYS[5])
    a = folded(int.from_bytes(content[8 * len(words) :], "big") ^ KEYS[6], a ^ len(content))
    both = folded(a ^ KEYS[5], b ^ KEYS[7]) ^ folded(c ^ KEYS[4], d ^ KEYS[6])
    return folded(mixed(both) ^ KEYS[0], mixed(seed ^ KEYS[8]))


@given(st.binary(max_size=300), st.integers(0, MASK))
@example(b"", 0)
@example(bytes(range(64)) * 3, MASK)
@example(b"\xff" * 127, 1)
def test_the_kernel_hashes_as_the_plain_form_does(content: bytes, seed: int) -> None:
    assert keyed_hash(content, seed) == plain(content, seed)
