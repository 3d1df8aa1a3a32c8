"""Refuses pages that are built to break parsers, before they are parsed: the cost grows with the
square of the depth of the tags, and with the square of the number of attributes of a tag.

Scans a page once. It knows which tags close others by the rules of HTML, so a page without
optional end tags does not seem deep.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from penstock_apps.knowledge.errors import Unreadable

DEPTH = 1000
ATTRIBUTES = 500
# Tags that change how text looks are opened again in each paragraph until they are closed.
LOOKS = 100
# A page with at most this many tags costs little, whatever is in it.
MANY_TAGS = 8_000

# The quantifiers are possessive: without backtracking, the scan takes linear time.
NAME = r"<(/?[a-z][^\s/>]*+)"
ATTRIBUTE = r"""[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|(?!["'])[^\s>]++))?+"""
CROWDED = re.compile(f"{NAME}(?:{ATTRIBUTE}){{{ATTRIBUTES + 1}}}", re.IGNORECASE)
MARKUP = re.compile(
    rf"<!--|<!\[CDATA\[|{NAME}(?:{ATTRIBUTE})*+\s*+(/?)|<(?:[!?]|/(?=[^>]))[^>]*+", re.IGNORECASE
)
# An attribute takes at least two characters: one of its own and one that separates it.
LONG_TAG = 2 * ATTRIBUTES
COMMENT_END = re.compile(r"--!?>")
CDATA_END = re.compile(r"]]>")
DECLARATION_END = re.compile(">")


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Elements whose content is text until they are closed, whatever it looks like.
RAW = {
    name: re.compile(rf"</{name}(?![^\s/>])", re.IGNORECASE)
    for name in names("iframe noembed noframes script style textarea title xmp")
}
# Within these, the content of such elements may be markup.
NOT_RAW_WITHIN = ("select", "template")
VOID = names(
    "area base br col embed hr img input keygen link meta param source track wbr html head body"
    " frame frameset"
)
FORMATTING = names("a b big code em font i nobr s small strike strong tt u")
CELLS = names("td th")
SECTIONS = names("tbody thead tfoot caption colgroup")
HEADINGS = names("h1 h2 h3 h4 h5 h6")
# Tags that end an open paragraph.
BLOCKS = HEADINGS | names(
    "address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption"
    " figure footer form header hgroup hr li listing main menu nav ol p plaintext pre search"
    " section summary ul xmp"
)
# The end tag of an element around them does not close these.
SCOPES = names(
    "applet caption desc foreignobject marquee mi mn mo ms mtext object table td template th"
)
SPECIAL = BLOCKS | SCOPES | CELLS | SECTIONS | names("button iframe noscript select tr")
TABLE_PARTS = CELLS | SECTIONS | {"tr"}
# Tags that are closed by the next one of their kind.
CLOSED_BY = {
    **dict.fromkeys(CELLS, CELLS),
    **dict.fromkeys(SECTIONS, SECTIONS),
    **dict.fromkeys(("dd", "dt"), names("dd dt")),
    **{name: frozenset({name}) for name in ("a", "button", "li", "nobr", "tr")},
}
# The same, but only if no other tag is open in between.
CLOSED_AT_ONCE = {"option": frozenset({"option"}), **dict.fromkeys(HEADINGS, HEADINGS)}
# In drawings and formulas a tag may close itself and none is void; in these tags HTML goes on.
FOREIGN = {"svg": names("desc foreignobject title"), "math": names("mi mn mo ms mtext")}
# HTML tags that end a drawing or formula.
ENDS_FOREIGN = HEADINGS | names(
    "b big blockquote body br center code dd div dl dt em embed head hr i img li listing menu meta"
    " nobr ol p pre ruby s small span strike strong sub sup table tt u ul var"
)


# A run of what needs no closer look: text, and tags except those with raw text.
PLAIN = re.compile(
    rf"(?:[^<]++|<(?![a-z/!?])"
    rf"|</?+(?!(?:{'|'.join(sorted(RAW))})(?![^\s/>]))[a-z][^\s/>]*+(?:{ATTRIBUTE}){{0,{ATTRIBUTES}}}+[\s/]*+>)*+",
    re.IGNORECASE,
)


def check(source: str) -> None:
    """Refuse a page whose tags are nested too deep, or have too many attributes."""
    tags = OpenTags() if source.count("<") > MANY_TAGS else None
    at: int | None = 0
    while at is not None:
        if tags is None and (plain := PLAIN.match(source, at)):
            at = plain.end()
        found = MARKUP.search(source, at)
        at = passed(source, found, tags) if found else None


def passed(source: str, found: re.Match[str], tags: OpenTags | None) -> int | None:
    """The position after what begins with `<`; None if it takes up the rest of the page."""
    name = (found[1] or "").lower()
    if not name:
        return without(source, found, is_foreign=tags is not None and tags.are_foreign)
    if name.startswith("/"):
        if tags is not None:
            tags.close(name[1:])
        return found.end()
    if found.end() - found.start() >= LONG_TAG and CROWDED.match(source, found.start()):
        raise crowded()
    is_raw = name in RAW and (tags is None or tags.may_hold_raw_text)
    if tags is not None:
        tags.open(name, found[0], closes_itself=bool(found[2]))
        if tags.depth > DEPTH or tags.looks > LOOKS:
            raise too_deep()
    end = RAW[name].search(source, found.end()) if is_raw else found
    return None if end is None else found.end() if end is found else end.start()


def without(source: str, found: re.Match[str], *, is_foreign: bool) -> int | None:
    """The position after a comment or a declaration, whatever is in it."""
    if found[0] == "<!--":
        end = COMMENT_END.search(source, found.end() - 2)
    elif is_foreign and found[0].upper() == "<![CDATA[":
        end = CDATA_END.search(source, found.end())
    else:
        end = DECLARATION_END.search(source, found.end())
    return None if end is None else end.end()


class OpenTags:
    """The open tags, as far as they matter for the depth of the next one.

    If in doubt a tag stays open: a page may seem deeper than it is, never flatter.
    """

    def __init__(self) -> None:
        self._names: list[str | None] = []  # None: closed before its content was.
        # For each open tag: the index of the innermost special tag and of the innermost scope,
        # itself included, and the drawing or formula that its content is a part of.
        self._special: list[int] = []
        self._scope: list[int] = []
        self._foreign: list[str] = []
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        self._closed = 0
        self._looks: defaultdict[str, list[str]] = defaultdict(list)
        self._looks_now = Counter[str]()

    @property
    def depth(self) -> int:
        return len(self._names) - self._closed

    @property
    def looks(self) -> int:
        """How many different formatting tags are open."""
        return len(self._looks_now)

    @property
    def are_foreign(self) -> bool:
        return bool(self._space)

    @property
    def may_hold_raw_text(self) -> bool:
        return not (self._space or self._places["select"] or self._places["template"])

    def open(self, name: str, markup: str, *, closes_itself: bool) -> None:
        if self._space and name in ENDS_FOREIGN:
            while self._space:
                self._pop()
        if not self._space:
            is_stray = name in TABLE_PARTS and not (
                self._places["table"] or self._places["template"]
            )
            if name in VOID or is_stray:
                return
            self._close_before(name)
            if name in FORMATTING:
                self._look(name, markup)
        elif closes_itself:
            return
        self._push(name)

    def close(self, name: str) -> None:
        if self._names and self._names[-1] == name and name not in FORMATTING:
            self._pop_to(len(self._names) - 1)
            return
        places = self._last(HEADINGS if name in HEADINGS else (name,))
        if name in TABLE_PARTS or name == "table":
            is_held = places < self._last(("table", "template"))
        elif name in SPECIAL and name != "p":
            is_held = bool(self._scope) and places < self._scope[-1]
        else:
            is_held = bool(self._special) and places < self._special[-1]
        if name in FORMATTING:
            if self._scope and 0 <= places < self._scope[-1]:
                return
            self._stop_looking(name)
            if places >= 0 and is_held:
                self._names[self._places[name].pop()] = None
                self._closed += 1
                return
        if places >= 0 and (not is_held or name == "template"):
            self._pop_to(places)

    def _close_before(self, name: str) -> None:
        """Close the tags that a tag of this name closes when it opens."""
        if name in BLOCKS and self._places["p"]:
            self._close_kind(frozenset({"p"}))
        if kind := CLOSED_BY.get(name):
            if name == "a" and self._last(("a",)) >= 0:
                self.close("a")
            self._close_kind(kind)
        kind = CLOSED_AT_ONCE.get(name)
        if kind and self._names and self._names[-1] in kind:
            self._pop_to(len(self._names) - 1)

    def _close_kind(self, kind: frozenset[str]) -> None:
        place = self._last(kind)
        if kind <= TABLE_PARTS:
            is_held = place < self._last(("table", "template"))
        else:
            is_held = bool(self._special) and place < self._special[-1]
        if place >= 0 and not is_held:
            self._pop_to(place)

    def _look(self, name: str, markup: str) -> None:
        self._looks[name].append(markup)
        self._looks_now[markup] += 1

    def _stop_looking(self, name: str) -> None:
        if looks := self._looks[name]:
            markup = looks.pop()
            self._looks_now[markup] -= 1
            if not self._looks_now[markup]:
                del self._looks_now[markup]

    @property
    def _space(self) -> str:
        """The drawing or formula that the next tag is a part of; '' if it is HTML."""
        return self._foreign[-1] if self._foreign else ""

    def _last(self, kind: Iterable[str]) -> int:
        """The index of the innermost open tag of these; -1 if none is open."""
        return max(self._places[name][-1] if self._places[name] else -1 for name in kind)

    def _push(self, name: str) -> None:
        place, within = len(self._names), self._space
        foreign = name if name in FOREIGN else within
        if within and name in FOREIGN[within]:
            foreign = ""
        self._special.append(place if name in SPECIAL else self._special[-1] if place else -1)
        self._scope.append(place if name in SCOPES else self._scope[-1] if place else -1)
        self._foreign.append(foreign)
        self._names.append(name)
        self._places[name].append(place)

    def _pop_to(self, place: int) -> None:
        while len(self._names) > place:
            self._pop()
        while self._names and self._names[-1] is None:
            self._pop()

    def _pop(self) -> None:
        name = self._names.pop()
        if name is None:
            self._closed -= 1
        else:
            self._places[name].pop()
        for each in (self._special, self._scope, self._foreign):
            each.pop()


def too_deep() -> Unreadable:
    return Unreadable("broken", "The page's tags are nested too deep. Save its text and send that.")


def crowded() -> Unreadable:
    return Unreadable(
        "broken",
        f"A tag of the page has more than {ATTRIBUTES} attributes. Save the text of the page and "
        "send that.",
    )
