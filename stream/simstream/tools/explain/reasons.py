"""Explains verdicts in plain sentences: what was decided, and by which rule."""

from __future__ import annotations

from simstream.judge.candidates import WIDE_DISTANCE, RejectionRule
from simstream.model import VERSION_KINDS, PageKind, VerdictKind
from simstream.tools.explain.explanation import AppliedRules, CandidateView, EarlierPage
from simstream.tools.explain.rejudge import VerdictCase

MEANINGS = {
    "few_words": "it has too few words to be compared",
    "http_status": "its HTTP status is not 2xx",
    "bad_json": "its value is not a JSON object, or a row of its file does not fit the columns",
    "bad_id": "its id is too long or not UTF-8",
    "long_url": "its URL is too long or not UTF-8",
    "wrong_type": "one of its fields has a wrong type",
    "no_text": "it has neither text nor HTML",
    "empty_value": "its value is empty",
    "too_large": "its record is larger than max_record_bytes",
    "bad_content_type": "its content type is not JSON, HTML or plain text",
    "binary": "it holds binary data, not text",
    "extract_failed": "extracting text from its HTML failed",
    "kernel_error": "fingerprinting it failed",
    "damaged": "it is damaged in its web archive",
    "bad_schema": "its value names no schema that can be used",
    "bad_value": "its value does not fit its schema",
}
"""The meaning of each reason of a verdict."""


def sentences(case: VerdictCase, rules: AppliedRules, beside: str | None = None) -> str:
    """Return why the page got its verdict, and how it compares with the page of the id `beside`."""
    if case.kind != PageKind.READABLE:
        return f"{_not_compared(case, rules)} {_left_behind(case)}"
    return _decided(case, rules) + ("" if beside is None else f" {_set_beside(case, rules, beside)}")


def _decided(case: VerdictCase, rules: AppliedRules) -> str:
    by_kind = {
        VerdictKind.NEW: _new,
        VerdictKind.NEAR_DUPLICATE: _near_duplicate,
        VerdictKind.UNCHANGED: _unchanged,
    }
    what = by_kind[case.verdict.verdict](case, rules)
    late = " It is older than the window, so it was judged but not kept." if case.before.late else ""
    return f"{what} {_ties(case, rules)}{late}"


def nearness(pair: CandidateView | EarlierPage, rules: AppliedRules) -> str:
    """Return how far apart two pages are, and how far apart they may be."""
    strict = pair.short and rules.short_distance is not None
    distance = rules.short_distance if strict else rules.distance
    agreement = rules.short_agreement if strict else rules.agreement
    why = ", as one of them is short" if strict else ""
    bits = f"they differ in {_number(pair.distance or 0, 'bit')} (at most {distance} may{why})"
    if pair.agreement is None or pair.rejected_by == RejectionRule.DISTANCE:
        return bits
    agree = f"{pair.agreement} of {rules.sketch_bits} bits of their sketches agree (at least {agreement} must)"
    return f"{bits}, and {agree}"


def name_draws(rules: AppliedRules) -> str:
    """Return what the distance of two pages is counted by."""
    if not rules.sketch_lookups:
        return "of the fingerprints" if rules.fingerprints == 1 else "of the closest fingerprints"
    count = rules.sketch_lookups
    words = "the first 64 of the sketches" if count == 1 else f"of one of the first {count} words of the sketches"
    return f"of the fingerprints or {words}, whichever are closer"


def rejection(candidate: CandidateView, rules: AppliedRules) -> str:
    """Return in a few words which rule rejected a candidate, or that it is a match."""
    words = {
        None: "match",
        RejectionRule.DISTANCE: f"too far: over {_number(rules.distance, 'bit')}",
        RejectionRule.SKETCH: f"sketches differ: under {rules.agreement} agree",
        RejectionRule.SHORT: "too far for a short page",
        RejectionRule.OWN: "its own earlier version",
        RejectionRule.NOT_CANONICAL: "not the oldest of its cluster",
        RejectionRule.UNCHANGED: "not used: the page is unchanged",
    }
    return words[RejectionRule(candidate.rejected_by) if candidate.rejected_by else None]


def _named(case: VerdictCase) -> CandidateView | None:
    return next((one for one in case.candidates if one.accepted), None)


def _near_duplicate(case: VerdictCase, rules: AppliedRules) -> str:
    found = _named(case)
    if found is None:
        return "It is a near duplicate."
    more = sum(one.accepted for one in case.candidates) - 1
    also = f" {_number(more, 'more live page')} matched, less closely." if more else ""
    near = nearness(found, rules)
    return f"It is a near duplicate of {found.id} (ordinal {found.ordinal}): {near}.{also}"


def _new(case: VerdictCase, rules: AppliedRules) -> str:
    live = case.before.live_pages - (case.before.earlier is not None)
    if not live:
        return "It is new: no other page was live."
    others = [one for one in case.candidates if one.rejected_by != RejectionRule.OWN]
    if not others:
        which = "the one other live page differs" if live == 1 else f"all {live:,} other live pages differ"
        return f"It is new: {which} in more than {WIDE_DISTANCE} bits, and at most {rules.distance} may differ."
    first = others[0]
    near = nearness(first, rules)
    why = (
        ""
        if first.rejected_by in (RejectionRule.DISTANCE, RejectionRule.SKETCH, RejectionRule.SHORT)
        else f" ({rejection(first, rules)})"
    )
    return f"It is new: even the nearest page, {first.id} (ordinal {first.ordinal}), does not match{why}: {near}."


def _unchanged(case: VerdictCase, rules: AppliedRules) -> str:
    earlier = case.before.earlier
    if earlier is None or earlier.distance is None:
        return "It is unchanged."
    near = nearness(earlier, rules)
    return f"It is unchanged since its earlier version (ordinal {earlier.ordinal}): {near}."


def _not_compared(case: VerdictCase, rules: AppliedRules) -> str:
    reason = case.verdict.reason
    if case.kind == PageKind.WITHDRAWN:
        return "It was withdrawn: a record without a value takes the page back."
    if reason == "few_words":
        return (
            f"It is too short: it has {_number(case.words, 'distinct word')}, and pages are compared from "
            f"{rules.min_words} on."
        )
    word = "unreadable" if case.verdict.verdict == VerdictKind.UNREADABLE else "too short"
    return f"It is {word} and was not compared: {MEANINGS.get(reason or '', reason)}."


def _set_beside(case: VerdictCase, rules: AppliedRules, page_id: str) -> str:
    found = case.beside
    if found is None:
        return f"{page_id} was not live then: it came later, had left, was never compared, or does not exist."
    by_limit = found.rejected_by in (None, RejectionRule.DISTANCE, RejectionRule.SKETCH, RejectionRule.SHORT)
    word = "a match" if found.accepted else "no match" if by_limit else f"no match ({rejection(found, rules)})"
    return f"Beside {found.id} (ordinal {found.ordinal}) it is {word}: {nearness(found, rules)}."


def _left_behind(case: VerdictCase) -> str:
    """Return what happened to the page's earlier version."""
    earlier = case.before.earlier
    if earlier is None:
        return "No earlier version of it was live."
    which = f"Its earlier version (ordinal {earlier.ordinal}, cluster {earlier.cluster_id})"
    if case.kind not in VERSION_KINDS:
        return f"{which} stays live: a failed fetch is no edit."
    return f"{which} leaves."


def _ties(case: VerdictCase, rules: AppliedRules) -> str:
    """Return what happened to clusters."""
    verdict, earlier = case.verdict, case.before.earlier
    gone = f" {_replaced(earlier, rules)}" if earlier and verdict.verdict != VerdictKind.UNCHANGED else ""
    if verdict.verdict == VerdictKind.NEW:
        return f"It founds cluster {verdict.cluster_id}.{gone}"
    merged = verdict.merged_clusters
    tie = ""
    if merged:
        which = f"cluster {merged[0]}" if len(merged) == 1 else f"clusters {', '.join(merged)}"
        tie = f", and ties {which} into it"
    word = "stays in" if verdict.verdict == VerdictKind.UNCHANGED else "joins"
    return f"It {word} cluster {verdict.cluster_id}{tie}; the oldest page there is {verdict.canonical}.{gone}"


def _replaced(earlier: EarlierPage, rules: AppliedRules) -> str:
    return (
        f"Its earlier version (ordinal {earlier.ordinal}) does not match ({nearness(earlier, rules)}) and leaves."
    )


def _number(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
