"""Kernels over strangers' bytes neither read nor write beside their arrays: nobody may touch the memory there."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = r"""
import ctypes, mmap, os, random
import numpy as np
from simstream.charset_codecs import EAST_ASIAN_CODECS
from simstream.kernels.text import charsets, utf8

PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None)


def guarded(pages):
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for beside in (0, (pages + 1) * PAGE):
        assert libc.mprotect(ctypes.c_void_p(address + beside), ctypes.c_size_t(PAGE), 0) == 0
    return np.frombuffer(memory, np.uint8)[PAGE : (pages + 1) * PAGE]


source, target = guarded(1), guarded(1)
random.seed(1)
codecs = (*EAST_ASIAN_CODECS, "cp1252", "iso8859-6")
pieces = [b"a" * 61, b" ", b"\xff", b"\x81\x30", b"\x80", b"\xed\xa0", b"\0"]
pieces += ["中文é€".encode(codec, "ignore") for codec in ("utf-8", "gb18030", "big5", "cp932", "cp1252")]
for _ in range(3000):
    page = b"".join(random.choices(pieces, k=random.randrange(9)))[: random.randrange(260)]
    size, room = len(page), 3 * len(page) + charsets.LANES
    for at_end in (True, False):
        raw = source[PAGE - size :] if at_end else source[:size]
        out = target[PAGE - room :] if at_end else target[:room]
        raw[:] = np.frombuffer(page, np.uint8)
        utf8.is_valid_utf8(raw)
        utf8._count_beyond_ascii(raw)
        utf8._mend_utf8(raw, out)
        codec = random.choice(codecs)
        tables = charsets._tables(codec)
        for replace_faults in (True, False):
            if codec in EAST_ASIAN_CODECS:
                charsets._read_east_asian(raw, tables.pairs, tables.longer, replace_faults, out)
            else:
                charsets._read_single_bytes(raw, tables, replace_faults, out)
print("untouched", flush=True)
os._exit(0)  # Python would free the memory while arrays still name it
"""


def test_charsets_and_utf8_stay_within_their_arrays() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "untouched\n"), done.stderr
