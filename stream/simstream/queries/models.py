"""Defines the types of questions and answers, for the API and its description.

An answer is read from the attributes of the library's own object.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from pydantic import (
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    RootModel,
    StrictBool,
    StrictInt,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from simstream.model import Verdict
from simstream.wire.page import status_of, time_ms

MAX_TEXTS = 256
"""The greatest number of texts, fingerprints or pages in one request."""
MAX_LISTED = 1_000
MAX_MATCHES = 100_000
"""The greatest number of matches in one answer."""


def _not_truth(value: object) -> object:
    """Refuse true and false, which Python takes for 1 and 0."""
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return value


Number = Annotated[int, BeforeValidator(_not_truth)]
Limit = Annotated[Number, Field(ge=1, le=MAX_LISTED)]
Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$", description="64 bits as 16 hex digits")]
Fingerprint = Annotated[
    str, Field(pattern=r"^([0-9a-f]{16}){1,3}$", description="16 hex digits for each fingerprint of a page")
]


class Question(BaseModel):
    """A question. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def no_other_fields(cls, fields: object) -> object:
        """Refuse unknown fields by the names of the known ones: what a stranger sent is never repeated."""
        if isinstance(fields, dict) and fields.keys() - cls.model_fields.keys():
            raise ValueError(f"the fields are {', '.join(cls.model_fields)}: leave out all others")
        return fields


class PageContent(Question):
    """A page without a name. The service extracts the text of its HTML as usual."""

    text: str | None = None
    html: str | None = None

    @model_validator(mode="after")
    def one_of_them(self) -> PageContent:
        """Refuse both and neither."""
        if (self.text is None) == (self.html is None):
            raise ValueError("give text or html")
        return self


class PagesQuestion(Question):
    """Texts or pages to match."""

    texts: Annotated[list[str], Field(max_length=MAX_TEXTS)] = []
    pages: Annotated[list[PageContent], Field(max_length=MAX_TEXTS, description="answered after `texts`")] = []
    limit: Annotated[Limit, Field(description="matches listed for each")] = 100

    @model_validator(mode="after")
    def not_too_many(self) -> PagesQuestion:
        """Refuse a question about nothing, and a question with too long an answer."""
        if not self.texts and not self.pages:
            raise ValueError("give `texts` or `pages`: there is nothing to match")
        _check_matches(len(self.texts) + len(self.pages), self.limit)
        return self


class FingerprintText(Question):
    """A fingerprint, as verdicts and `simstream fingerprint` have it."""

    fingerprint: Fingerprint
    sketch: Annotated[
        list[Hex] | None, Field(description="its 64-bit words; without a sketch only the distance decides")
    ] = None


class FingerprintsQuestion(Question):
    """Fingerprints to match."""

    fingerprints: Annotated[list[FingerprintText], Field(min_length=1, max_length=MAX_TEXTS)]
    limit: Limit = 100

    @model_validator(mode="after")
    def not_too_many(self) -> FingerprintsQuestion:
        """Refuse a question that may have too long an answer."""
        _check_matches(len(self.fingerprints), self.limit)
        return self


def _check_matches(asked: int, limit: int) -> None:
    if asked * limit > MAX_MATCHES:
        raise ValueError(f"{asked} questions with {limit} matches each: at most {MAX_MATCHES} are listed at once")


class TokensQuestion(Question):
    """Texts to cut into words."""

    texts: Annotated[
        list[str], Field(min_length=1, max_length=MAX_TEXTS, description="together at most 1 MB in UTF-8")
    ]
    mode: Annotated[
        Literal["accurate", "search", "full", "weights"],
        Field(description="jieba's three modes; `weights`: the words that count, with their weights"),
    ] = "accurate"
    hmm: StrictBool = True
    top: Annotated[Number | None, Field(ge=1, description="how many of the heaviest words (`weights`)")] = None


class PageToJudge(BaseModel):
    """A page to add, as in the topic `pages`. It needs `id` or `url`, and `text` or `html`."""

    model_config = ConfigDict(extra="forbid")

    id: str | StrictInt | None = None
    url: str | None = None
    title: str | None = None
    text: str | None = None
    html: str | None = None
    time: Annotated[int | str | None, Field(description="ISO 8601, or ms since 1970")] = None
    status: int | None = None

    @field_validator("time", "status", mode="before")
    @classmethod
    def no_truth_value(cls, value: object) -> object:
        """Refuse a truth value, which would count as 1 or 0."""
        if isinstance(value, bool):
            raise ValueError("give a number or a text, not a truth value")
        return value

    @field_validator("status", mode="before")
    @classmethod
    def a_status(cls, value: object) -> object:
        """Take a status as the topic does: also as text, and blank text as absent."""
        return status_of(value)

    @field_validator("time")
    @classmethod
    def a_time(cls, time: int | str | None) -> int | str | None:
        """Refuse a time that cannot be read: in the topic it would silently count as missing."""
        if time is not None and time_ms(time) is None:
            raise ValueError("give ISO 8601, such as 2026-03-02T18:00:00Z, or ms since 1970")
        return time


class MatchAnswer(BaseModel):
    """A live page."""

    id: str
    distance: int
    similarity: Annotated[float | None, Field(description="null where no sketch was compared")]
    cluster_id: str


class PageMatchesAnswer(BaseModel):
    """The matches of one text or fingerprint, the closest first."""

    reason: Annotated[
        str | None, Field(description="why it was not compared: few_words, no_text, extract_failed, …")
    ] = None
    matches: list[MatchAnswer]


class MatchesAnswer(BaseModel):
    """In the order of the question."""

    policy: str
    live_pages: int
    results: list[PageMatchesAnswer]


class TokenAnswer(BaseModel):
    """A word that counts."""

    word: str
    times: int
    weight: float


class TokensAnswer(BaseModel):
    """In the order of the question: tokens, or words by falling weight."""

    results: list[list[str] | list[TokenAnswer]]


class KnownPageAnswer(BaseModel):
    """A live page."""

    id: str
    ordinal: int
    time: int
    fingerprint: Fingerprint
    cluster_id: str


class ClusterAnswer(BaseModel):
    """A cluster of live pages; members are the oldest first."""

    id: str
    canonical: Annotated[str, Field(validation_alias=AliasPath("members", 0, "id"))]
    pages: int
    members: list[KnownPageAnswer]


def _schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a struct of the library, with the structs in it, without examples."""
    _, parts = msgspec.json.schema_components([kind], ref_template="{name}")
    for part in parts.values():
        part["description"] = part["description"].partition("\n")[0]
    tree: dict[str, Any] = parts[kind.__name__]
    fields = tree["properties"].items()
    return tree | {"properties": {name: parts.get(field.get("$ref"), field) for name, field in fields}}


class VerdictAnswer(
    RootModel[Annotated[Any, PlainSerializer(msgspec.to_builtins), WithJsonSchema(_schema(Verdict))]]
):
    """A published verdict."""


class PageAnswer(BaseModel):
    """A page and its verdict. `page` is null if no version is live, `verdict` if it is not recent."""

    page: KnownPageAnswer | None
    cluster: ClusterAnswer | None
    verdict: Annotated[
        VerdictAnswer | None, Field(description="if it is one of the last 20,000 verdicts since this process began")
    ]


class ReadyAnswer(BaseModel):
    """The process is ready. `policy` is the id of the limits of a match."""

    ready: bool
    live_pages: int
    policy: str


class ProblemAnswer(BaseModel):
    """Why there is no answer, and what to do."""

    detail: str
