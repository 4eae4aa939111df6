"""The module `zstd`: Python's own since 3.14, before that its backport."""

import sys

if sys.version_info >= (3, 14):
    from compression import zstd as zstd
else:
    from backports import zstd as zstd
