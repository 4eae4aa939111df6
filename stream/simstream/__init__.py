"""simstream: one verdict for each crawled page, new or a near-duplicate of which.

The public Python surface is `Deduper` and `fingerprint`; they are loaded when first used, so that importing
the package costs nothing.
"""

from typing import TYPE_CHECKING, Any

from simstream.version import __version__ as __version__

if TYPE_CHECKING:
    from simstream.deduper import Deduper, fingerprint

__all__ = ["Deduper", "fingerprint"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from simstream import deduper

        return getattr(deduper, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
