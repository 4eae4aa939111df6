"""The judge in one process, without a log: `Deduper` and `fingerprint`."""

from simstream.deduper.deduper import Deduper
from simstream.deduper.fingerprinting import FingerprintedPages, fingerprint
from simstream.deduper.pages import ExplainedPage

__all__ = ["Deduper", "ExplainedPage", "FingerprintedPages", "fingerprint"]
