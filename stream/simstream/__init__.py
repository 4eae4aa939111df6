"""simstream gives each crawled page one verdict: new, or a near duplicate of a named page.

In this process, without a broker: `Deduper` judges pages, `fingerprint` gives the fingerprints of texts. Beside a
running service: `Client` and `AsyncClient` send pages and bring back their verdicts. Every error that simstream
raises on purpose is a `SimstreamError`, except TypeError for an argument of a wrong type.

    >>> import simstream
    >>> with simstream.Deduper() as deduper:
    ...     [verdict] = deduper.judge(["Too short to compare."])
    >>> verdict.verdict
    'too_short'

Each name is loaded when it is first used: importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from simstream.version import __version__ as __version__

if TYPE_CHECKING:
    from simstream.client import AsyncClient, Client, RawPage
    from simstream.deduper import Deduper, ExplainedPage, fingerprint
    from simstream.errors import (
        BrokerUnreachable,
        ClientClosed,
        ClientError,
        ClientFull,
        DeliveryFailed,
        ExtractionNotStarted,
        InputError,
        InputMissing,
        LogError,
        LogLocked,
        NotAdmitted,
        NotPermitted,
        RecordTooLarge,
        SettingsError,
        SimstreamError,
        StateDamaged,
        StateError,
        StateFormat,
        StateFull,
        StateLocked,
        StateUnwritable,
        TopicMissing,
        Unavailable,
        UsageError,
        VerdictLate,
        WrongLog,
        WrongPolicy,
        WrongRecipe,
    )
    from simstream.judge.candidates import Candidate
    from simstream.judge.lookups import Match
    from simstream.model import PageSource, Record, Verdict, VerdictKind
    from simstream.text.html_page import HtmlPage, read_html
    from simstream.text.recipe import Recipe
    from simstream.text.recipe_file import load_recipe

_HOMES = {
    "client": ("AsyncClient", "Client", "RawPage"),
    "deduper": ("Deduper", "ExplainedPage", "fingerprint"),
    "judge.candidates": ("Candidate",),
    "judge.lookups": ("Match",),
    "model": ("PageSource", "Record", "Verdict", "VerdictKind"),
    "text.html_page": ("HtmlPage", "read_html"),
    "text.recipe": ("Recipe",),
    "text.recipe_file": ("load_recipe",),
}
"""Where the names are that are no errors."""

__all__ = [
    "AsyncClient",
    "BrokerUnreachable",
    "Candidate",
    "Client",
    "ClientClosed",
    "ClientError",
    "ClientFull",
    "Deduper",
    "DeliveryFailed",
    "ExplainedPage",
    "ExtractionNotStarted",
    "HtmlPage",
    "InputError",
    "InputMissing",
    "LogError",
    "LogLocked",
    "Match",
    "NotAdmitted",
    "NotPermitted",
    "PageSource",
    "RawPage",
    "Recipe",
    "Record",
    "RecordTooLarge",
    "SettingsError",
    "SimstreamError",
    "StateDamaged",
    "StateError",
    "StateFormat",
    "StateFull",
    "StateLocked",
    "StateUnwritable",
    "TopicMissing",
    "Unavailable",
    "UsageError",
    "Verdict",
    "VerdictKind",
    "VerdictLate",
    "WrongLog",
    "WrongPolicy",
    "WrongRecipe",
    "fingerprint",
    "load_recipe",
    "read_html",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from simstream.errors import Unavailable

    home = next((home for home, names in _HOMES.items() if name in names), "errors")
    try:
        module = import_module(f"simstream.{home}")
    except (AttributeError, Unavailable) as error:  # else an import would say only that there is no such name
        raise ImportError(f"simstream.{home} cannot be imported: {error}") from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
