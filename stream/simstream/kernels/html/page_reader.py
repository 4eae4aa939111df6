"""Takes a page apart, in one pass over its bytes: elements, blocks of text, title and canonical link."""

from __future__ import annotations

from typing import Final

import numpy as np

from simstream.kernels.html.character_references import CharacterReferences
from simstream.kernels.html.class_words import ClassWords, class_flags
from simstream.kernels.html.element_names import (
    ANCHOR,
    BARRIER,
    BREAKOUT,
    BUTTON_KIND,
    CAPTION,
    CELL,
    CLOSES_P,
    COLGROUP,
    ENDLESS,
    HIDDEN_KIND,
    LI_KIND,
    LINE_KIND,
    LIST_KIND,
    MATH_KIND,
    MATH_POINT,
    MEDIA_KIND,
    P_KIND,
    POINT_KIND,
    RAW,
    ROW,
    ROWS,
    SCRIPT,
    SELECT_KIND,
    SOFT,
    SPECIAL,
    SVG_KIND,
    SVG_POINT,
    TABLE,
    TABLE_KIND,
    TEMPLATE_KIND,
    ElementNames,
    place_of,
    signed_hash_of,
)
from simstream.kernels.html.page_parts import (
    CANONICAL,
    DEPTH,
    OG_TITLE,
    OVER,
    SEARCH_END,
    TITLE,
    PageParts,
    begin_link,
    end_block,
    end_link,
    pop_to,
    push,
    write,
)
from simstream.kernels.html.page_rules import clear, clear_table, close_p, is_foreign, open_foreign
from simstream.kernels.html.tags import (
    ANY_NAME,
    BANG,
    GT,
    LETTER,
    LT,
    QUESTION,
    SLASH,
    SPACE,
    Bytes,
    HtmlBytes,
    byte_at,
    declaration_end,
    find,
    is_kind,
    next_attribute,
    raw_end,
    script_end,
    tag_end,
    tag_name,
    text_hash,
)
from simstream.kernels.jit import lean_helper

_TABLE_PART: Final = CAPTION | CELL | COLGROUP | ROW | ROWS
_STOPS: Final = TABLE | CELL | CAPTION | BARRIER
_CLASS, _ID, _ROLE, _STYLE, _HIDDEN, _ARIA_HIDDEN, _ITEMPROP = (
    np.int64(signed_hash_of(name)) for name in ("class", "id", "role", "style", "hidden", "aria-hidden", "itemprop")
)
_LONGEST_NAME: Final = len("aria-hidden")
"""No attribute that matters has a longer name."""
_TRUE, _TITLE, _XMP = (np.int64(signed_hash_of(name)) for name in ("true", "title", "xmp"))
_META, _LINK, _NAME, _PROPERTY, _CONTENT, _REL, _HREF, _OG_TITLE, _CANONICAL = (
    np.int64(signed_hash_of(name))
    for name in ("meta", "link", "name", "property", "content", "rel", "href", "og:title", "canonical")
)
_DISPLAY: Final = np.frombuffer(b"display", np.uint8)
_NONE: Final = np.frombuffer(b"none", np.uint8)
_COLON: Final = 58


@lean_helper
def take_apart(
    html: HtmlBytes, names: ElementNames, words: ClassWords, references: CharacterReferences, parts: PageParts
) -> None:
    """Fill `parts` from a page in UTF-8. Cost: linear in its bytes, 1 to 2 ns each on real pages."""
    parts.num[:] = 0
    parts.last[:] = -1
    push(parts, 0, 0, False, False, False)
    at, size = 0, html.bytes.size
    while at < size:
        start = at
        at = _markup(html, at)
        if at > start:
            write(html, start, at, references, False, parts)
        if at == size:
            break
        follows = byte_at(html, at + 1)
        if is_kind(follows, LETTER):
            at = _start_tag(html, at + 1, names, words, references, parts)
        elif follows == SLASH and at + 2 < size and is_kind(byte_at(html, at + 2), LETTER):
            at = _end_tag(html, at + 2, names, parts)
        else:
            at = declaration_end(html, at, is_foreign(parts))
    end_block(parts)
    pop_to(parts, 0)


@lean_helper
def _markup(html: HtmlBytes, at: int) -> int:
    """Return where the next tag, comment or declaration begins, or the end of the page. Any other `<` is text."""
    size = html.bytes.size
    at = find(html, at, LT)
    while at + 1 < size:
        follows = byte_at(html, at + 1)
        if is_kind(follows, LETTER) or follows in (BANG, QUESTION, SLASH):
            return at
        at = find(html, at + 1, LT)
    return size


@lean_helper
def _start_tag(
    html: HtmlBytes,
    begin: int,
    names: ElementNames,
    words: ClassWords,
    references: CharacterReferences,
    parts: PageParts,
) -> int:
    """Read a start tag and the raw text behind it, and return where reading goes on."""
    at, name = tag_name(html, begin, ANY_NAME)
    place = place_of(names, name)
    traits = names.traits[np.uint64(place)] if place >= 0 else 0
    kind = names.kinds[np.uint64(place)] if place >= 0 else 0
    flags, hidden, empty = 0, False, False
    if at < html.bytes.size and byte_at(html, at) == GT:
        end = at + 1
    else:
        end, flags, hidden, empty = _read_attributes(html, at, words, kind > LINE_KIND)
        if end > html.bytes.size:
            return end
    if is_foreign(parts):
        if traits & BREAKOUT == 0:
            if not empty:
                open_foreign(parts, kind, traits)
            return end
        while is_foreign(parts):
            pop_to(parts, parts.num[DEPTH] - 1)
    if traits & RAW:
        return _raw(html, end, name, traits, references, parts)
    if traits & ENDLESS:
        end_block(parts)
        write(html, end, html.bytes.size, references, True, parts)
        return html.bytes.size
    if kind == 0:
        if traits & ANCHOR:
            begin_link(parts)
        elif name in (_META, _LINK):
            _note(html, at, parts)
        return end
    end_block(parts)
    if kind == TABLE_KIND or traits & CLOSES_P:
        close_p(parts)
    if kind == LINE_KIND and traits & COLGROUP == 0:
        return end
    if traits & _TABLE_PART:
        if not clear_table(parts, kind):
            return end
    elif not clear(parts, kind):
        return end
    if kind in (SVG_KIND, MATH_KIND) and empty:
        return end
    hidden |= TEMPLATE_KIND <= kind <= MATH_KIND or kind in (HIDDEN_KIND, MEDIA_KIND)
    stops = traits & _STOPS != 0 or kind in (TEMPLATE_KIND, SELECT_KIND)
    if traits & COLGROUP == 0:
        push(parts, kind, flags, hidden, stops, traits & SPECIAL != 0 and traits & SOFT == 0)
    return end


@lean_helper
def _raw(
    html: HtmlBytes, at: int, name: int, traits: int, references: CharacterReferences, parts: PageParts
) -> int:
    """Read raw text, which ends before its end tag: nothing of it is text, except of `xmp`."""
    end = script_end(html, at, name) if traits & SCRIPT else raw_end(html, at, name)
    if name == _TITLE and parts.num[TITLE + 1] == 0:
        parts.num[TITLE], parts.num[TITLE + 1] = at, end
    elif name == _XMP:
        end_block(parts)
        close_p(parts)
        write(html, at, end, references, True, parts)
        end_block(parts)
    return end


@lean_helper
def _note(html: HtmlBytes, at: int, parts: PageParts) -> None:
    """Note where the first `og:title` and the first canonical link are, if this tag has one."""
    wanted, start, end = 0, 0, 0
    while True:
        at, name, name_end, value, value_end = next_attribute(html, at)
        if name < 0:
            break
        found = text_hash(html, name, name_end)
        if found in (_PROPERTY, _NAME, _REL):
            said = text_hash(html, value, value_end)
            wanted = OG_TITLE if said == _OG_TITLE else CANONICAL if said == _CANONICAL else wanted
        elif found in (_CONTENT, _HREF):
            start, end = value, value_end
    if wanted and end > start and parts.num[wanted + 1] == 0:
        parts.num[wanted], parts.num[wanted + 1] = start, end


@lean_helper
def _end_tag(html: HtmlBytes, begin: int, names: ElementNames, parts: PageParts) -> int:
    """Read an end tag, and return where it ends. It ends nothing if no element of its kind can be reached."""
    at, name = tag_name(html, begin, ANY_NAME)
    at, _, _ = tag_end(html, at)
    if at > html.bytes.size:
        return at
    found = place_of(names, name)
    if found < 0:
        return at
    kind = names.kinds[found]
    if kind == 0 and names.traits[found] & (SVG_POINT | MATH_POINT) and parts.last[POINT_KIND] >= 0:
        kind = POINT_KIND
    if kind == 0:
        if names.traits[found] & ANCHOR:
            end_link(parts)
        return at
    if is_foreign(parts) and kind not in (SVG_KIND, MATH_KIND, P_KIND, POINT_KIND):
        return at
    end_block(parts)
    if kind == LINE_KIND:
        return at
    if parts.num[OVER]:
        parts.num[OVER] -= 1
        return at
    place = parts.last[kind]
    barrier = parts.stack[parts.num[DEPTH] - 1, SEARCH_END]
    if kind in (TABLE_KIND, TEMPLATE_KIND):
        barrier = parts.last[TEMPLATE_KIND]
    elif names.traits[found] & _TABLE_PART:
        barrier = max(parts.last[TABLE_KIND], parts.last[TEMPLATE_KIND])
    elif kind == P_KIND:
        barrier = max(barrier, parts.last[BUTTON_KIND])
    elif kind == LI_KIND:
        barrier = max(barrier, parts.last[LIST_KIND])
    if place > 0 and place >= barrier:
        pop_to(parts, place)
    return at


@lean_helper
def _read_attributes(html: HtmlBytes, at: int, words: ClassWords, matters: bool) -> tuple[int, int, bool, bool]:
    """Return where a tag ends, the flags of its class words, whether it hides its text, and whether it ends with
    `/>`. Only reads the attributes of a tag that matters."""
    flags, hidden = 0, False
    while True:
        begin = at
        at, name, name_end, start, end = next_attribute(html, at)
        if name < 0:
            empty = at <= html.bytes.size and at - 2 >= begin and byte_at(html, at - 2) == SLASH
            return at, flags, hidden, empty
        if not matters or name_end - name > _LONGEST_NAME:
            continue
        found = text_hash(html, name, name_end)
        if found in (_CLASS, _ID, _ROLE, _ITEMPROP):
            flags |= class_flags(html, start, end, words)
        elif found == _HIDDEN:
            hidden = True
        elif found == _ARIA_HIDDEN:
            hidden |= text_hash(html, start, end) == _TRUE
        elif found == _STYLE:
            hidden |= _hides(html, start, end)


@lean_helper
def _hides(html: HtmlBytes, start: int, end: int) -> bool:
    """Whether a style says `display: none`."""
    at = start
    while at + _DISPLAY.size + 1 + _NONE.size <= end:
        if byte_at(html, at) | 32 == _DISPLAY[0] and _is_word(html, at, _DISPLAY):
            at = after = at + _DISPLAY.size
            while at < end and (is_kind(byte_at(html, at), SPACE) or byte_at(html, at) == _COLON):
                at += 1
            if after < at <= end - _NONE.size and _is_word(html, at, _NONE):
                return True
        else:
            at += 1
    return False


@lean_helper
def _is_word(html: HtmlBytes, at: int, word: Bytes) -> bool:
    """Whether these bytes are the word, in any case."""
    same = True
    for i in range(word.size):
        same &= byte_at(html, at + i) | 32 == word[i]
    return same
