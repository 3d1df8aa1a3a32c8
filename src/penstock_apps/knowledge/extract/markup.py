"""Refuses pages that are built to break parsers, before one parses them: their cost grows with the
square of how deep tags stand within each other, and of how many attributes a tag has.

Looks through a page once. It knows of the rules of HTML which tags close which others, so that
a page that leaves out what may be left out is not taken for a deep one.
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
# Up to so many tags a page costs little, whatever is in it.
MANY_TAGS = 8_000

# What cannot go on as an attribute is given up at once, so that a page is looked through in one go.
NAME = r"<(/?[a-z][^\s/>]*+)"
ATTRIBUTE = r"""[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|(?!["'])[^\s>]++))?+"""
CROWDED = re.compile(f"{NAME}(?:{ATTRIBUTE}){{{ATTRIBUTES + 1}}}", re.IGNORECASE)
MARKUP = re.compile(
    rf"<!--|<!\[CDATA\[|{NAME}(?:{ATTRIBUTE})*+\s*+(/?)|<(?:[!?]|/(?=[^>]))[^>]*+", re.IGNORECASE
)
# An attribute has a character and what parts it from the next.
LONG_TAG = 2 * ATTRIBUTES
COMMENT_END = re.compile(r"--!?>")
CDATA_END = re.compile(r"]]>")
DECLARATION_END = re.compile(">")


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Text until they are closed, whatever it looks like.
RAW = {
    name: re.compile(rf"</{name}(?![^\s/>])", re.IGNORECASE)
    for name in names("iframe noembed noframes script style textarea title xmp")
}
# Within these it may be none.
NOT_RAW_WITHIN = ("select", "template")
VOID = names(
    "area base br col embed hr img input keygen link meta param source track wbr html head body"
    " frame frameset"
)
FORMATTING = names("a b big code em font i nobr s small strike strong tt u")
CELLS = names("td th")
SECTIONS = names("tbody thead tfoot caption colgroup")
HEADINGS = names("h1 h2 h3 h4 h5 h6")
# They end a paragraph that is open.
BLOCKS = HEADINGS | names(
    "address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption"
    " figure footer form header hgroup hr li listing main menu nav ol p plaintext pre search"
    " section summary ul xmp"
)
# The end of a tag around them closes none of these.
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
# The same, where nothing stands between the two.
CLOSED_AT_ONCE = {"option": frozenset({"option"}), **dict.fromkeys(HEADINGS, HEADINGS)}
# Drawings and formulas, in which a tag may close itself and none is void; and where HTML goes on.
FOREIGN = {"svg": names("desc foreignobject title"), "math": names("mi mn mo ms mtext")}
# HTML that ends them.
ENDS_FOREIGN = HEADINGS | names(
    "b big blockquote body br center code dd div dl dt em embed head hr i img li listing menu meta"
    " nobr ol p pre ruby s small span strike strong sub sup table tt u ul var"
)


# All that needs no look of its own, in one go: texts, and tags but for those of raw text.
PLAIN = re.compile(
    rf"(?:[^<]++|<(?![a-z/!?])"
    rf"|</?+(?!(?:{'|'.join(sorted(RAW))})(?![^\s/>]))[a-z][^\s/>]*+(?:{ATTRIBUTE}){{0,{ATTRIBUTES}}}+[\s/]*+>)*+",
    re.IGNORECASE,
)


def check(source: str) -> None:
    """Refuse a page whose tags stand too deep within each other, or have too many attributes."""
    tags = OpenTags() if source.count("<") > MANY_TAGS else None
    at: int | None = 0
    while at is not None:
        if tags is None and (plain := PLAIN.match(source, at)):
            at = plain.end()
        found = MARKUP.search(source, at)
        at = passed(source, found, tags) if found else None


def passed(source: str, found: re.Match[str], tags: OpenTags | None) -> int | None:
    """Where to go on behind something that begins with `<`; None where nothing comes any more."""
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
    """Behind a comment or a declaration, whatever is in it."""
    if found[0] == "<!--":
        end = COMMENT_END.search(source, found.end() - 2)
    elif is_foreign and found[0].upper() == "<![CDATA[":
        end = CDATA_END.search(source, found.end())
    else:
        end = DECLARATION_END.search(source, found.end())
    return None if end is None else end.end()


class OpenTags:
    """The tags that are open, as far as it matters to how deep the next one stands.

    Where in doubt a tag stays open: a page may be taken for deeper than it is, never for flatter.
    """

    def __init__(self) -> None:
        self._names: list[str | None] = []  # None: closed, but not what stands in it.
        # For each of them: the place of the nearest special one and of the nearest scope, up to
        # itself, and what it is a part of.
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
        """How many different tags for the looks of a text are open."""
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
        """Close the tags that one of this name closes when it opens."""
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
        """Where the last one of these is open; -1: none is."""
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
    return Unreadable("broken", "The page is nested without end. Save its text and send that.")


def crowded() -> Unreadable:
    return Unreadable(
        "broken",
        f"A tag of the page has more than {ATTRIBUTES} attributes. Save the text of the page and "
        "send that.",
    )
