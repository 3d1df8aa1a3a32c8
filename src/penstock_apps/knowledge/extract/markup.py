"""Refuse web pages that would take a parser very long, before they are parsed.

The time for parsing grows with the square of the depth of the tags, and with the square of the
number of a tag's attributes. This module scans a page once. It follows HTML's rules for which tags
close others, so a page that leaves out optional end tags does not seem deep.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from penstock_apps.knowledge.errors import Unreadable

MAX_DEPTH = 1000
MAX_ATTRIBUTES = 500
# A parser opens formatting tags again in each paragraph, until they are closed.
MAX_FORMATTING_TAGS = 100
# A page with at most this many tags costs little, whatever is in it.
MANY_TAGS = 8_000

# The quantifiers are possessive: without backtracking, the scan takes linear time.
NAME = r"<(/?[a-z][^\s/>]*+)"
ATTRIBUTE = r"""[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|(?!["'])[^\s>]++))?+"""
CROWDED_TAG = re.compile(f"{NAME}(?:{ATTRIBUTE}){{{MAX_ATTRIBUTES + 1}}}", re.IGNORECASE)
MARKUP = re.compile(
    rf"<!--|<!\[CDATA\[|{NAME}(?:{ATTRIBUTE})*+\s*+(/?)|<(?:[!?]|/(?=[^>]))[^>]*+", re.IGNORECASE
)
# An attribute takes at least two characters: one of its own and one that separates it.
LONG_TAG = 2 * MAX_ATTRIBUTES
COMMENT_END = re.compile(r"--!?>")
CDATA_END = re.compile(r"]]>")
DECLARATION_END = re.compile(">")


def name_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The content of these elements is text until they are closed, even if it looks like tags.
RAW_TEXT_ENDS = {
    name: re.compile(rf"</{name}(?![^\s/>])", re.IGNORECASE)
    for name in name_set("iframe noembed noframes script style textarea title xmp")
}
VOID = name_set(
    "area base br col embed hr img input keygen link meta param source track wbr html head body"
    " frame frameset"
)
FORMATTING = name_set("a b big code em font i nobr s small strike strong tt u")
CELLS = name_set("td th")
SECTIONS = name_set("tbody thead tfoot caption colgroup")
HEADINGS = name_set("h1 h2 h3 h4 h5 h6")
# Tags that end an open paragraph.
BLOCKS = HEADINGS | name_set(
    "address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption"
    " figure footer form header hgroup hr li listing main menu nav ol p plaintext pre search"
    " section summary ul xmp"
)
# The end tag of an element around them does not close these.
SCOPES = name_set(
    "applet caption desc foreignobject marquee mi mn mo ms mtext object table td template th"
)
SPECIAL = BLOCKS | SCOPES | CELLS | SECTIONS | name_set("button iframe noscript select tr")
TABLE_PARTS = CELLS | SECTIONS | {"tr"}
# Tags that are closed by the next one of their kind.
CLOSED_BY = {
    **dict.fromkeys(CELLS, CELLS),
    **dict.fromkeys(SECTIONS, SECTIONS),
    **dict.fromkeys(("dd", "dt"), name_set("dd dt")),
    **{name: frozenset({name}) for name in ("a", "button", "li", "nobr", "tr")},
}
# The same, but only if no other tag is open in between.
CLOSED_AT_ONCE = {"option": frozenset({"option"}), **dict.fromkeys(HEADINGS, HEADINGS)}
# In drawings and formulas any tag may close itself, and none is void. Within the tags on the right
# the content is HTML again.
FOREIGN = {"svg": name_set("desc foreignobject title"), "math": name_set("mi mn mo ms mtext")}
# HTML tags that end a drawing or formula.
ENDS_FOREIGN = HEADINGS | name_set(
    "b big blockquote body br center code dd div dl dt em embed head hr i img li listing menu meta"
    " nobr ol p pre ruby s small span strike strong sub sup table tt u ul var"
)


# A run of text, and of tags that have no raw text. Most pages can be skipped with it.
PLAIN_RUN = re.compile(
    rf"(?:[^<]++|<(?![a-z/!?])"
    rf"|</?+(?!(?:{'|'.join(sorted(RAW_TEXT_ENDS))})(?![^\s/>]))[a-z][^\s/>]*+(?:{ATTRIBUTE}){{0,{MAX_ATTRIBUTES}}}+[\s/]*+>)*+",
    re.IGNORECASE,
)


def check_page(source: str) -> None:
    """Raise `Unreadable` if tags are nested too deep, or a tag has too many attributes."""
    tags = OpenTags() if source.count("<") > MANY_TAGS else None
    at: int | None = 0
    while at is not None:
        if tags is None and (plain := PLAIN_RUN.match(source, at)):
            at = plain.end()
        tag = MARKUP.search(source, at)
        at = position_after(source, tag, tags) if tag else None


def position_after(source: str, tag: re.Match[str], tags: OpenTags | None) -> int | None:
    """Return the position after a tag, or None if the scan of the page is complete.

    If the content of the tag is raw text, such as a script, return the position of its end tag, or
    None if it has no end tag. Raises `Unreadable` if tags are nested too deep, or this tag has too
    many attributes.
    """
    name = (tag[1] or "").lower()
    if not name:
        is_foreign = tags is not None and tags.are_foreign
        return position_after_declaration(source, tag, is_foreign=is_foreign)
    if name.startswith("/"):
        if tags is not None:
            tags.close(name[1:])
        return tag.end()
    if tag.end() - tag.start() >= LONG_TAG and CROWDED_TAG.match(source, tag.start()):
        raise crowded_error()
    is_raw = name in RAW_TEXT_ENDS and (tags is None or tags.may_hold_raw_text)
    if tags is not None:
        tags.open(name, tag[0], closes_itself=bool(tag[2]))
        if tags.depth > MAX_DEPTH or tags.formatting_tags > MAX_FORMATTING_TAGS:
            raise too_deep_error()
    end = RAW_TEXT_ENDS[name].search(source, tag.end()) if is_raw else tag
    return None if end is None else tag.end() if end is tag else end.start()


def position_after_declaration(source: str, tag: re.Match[str], *, is_foreign: bool) -> int | None:
    """Return the position after a comment or a declaration, or None if it has no end."""
    if tag[0] == "<!--":
        end = COMMENT_END.search(source, tag.end() - 2)
    elif is_foreign and tag[0].upper() == "<![CDATA[":
        end = CDATA_END.search(source, tag.end())
    else:
        end = DECLARATION_END.search(source, tag.end())
    return None if end is None else end.end()


class OpenTags:
    """The tags that are open at one position of a page, and their depth.

    In doubt a tag counts as open. A page may therefore seem deeper than it is, but never flatter.
    """

    def __init__(self) -> None:
        self._names: list[str | None] = []  # None for a tag that was closed before its content.
        # For each open tag: the index of the innermost special tag and of the innermost scope,
        # itself included, and the drawing or formula that its content is a part of.
        self._special: list[int] = []
        self._scope: list[int] = []
        self._foreign: list[str] = []
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        self._closed = 0
        self._formatting: defaultdict[str, list[str]] = defaultdict(list)
        self._open_formatting = Counter[str]()

    @property
    def depth(self) -> int:
        return len(self._names) - self._closed

    @property
    def formatting_tags(self) -> int:
        """How many different formatting tags are open."""
        return len(self._open_formatting)

    @property
    def are_foreign(self) -> bool:
        return bool(self._foreign_root)

    @property
    def may_hold_raw_text(self) -> bool:
        return not (self._foreign_root or self._places["select"] or self._places["template"])

    def open(self, name: str, markup: str, *, closes_itself: bool) -> None:
        if self._foreign_root and name in ENDS_FOREIGN:
            while self._foreign_root:
                self._pop()
        if not self._foreign_root:
            is_stray = name in TABLE_PARTS and not (
                self._places["table"] or self._places["template"]
            )
            if name in VOID or is_stray:
                return
            self._close_before(name)
            if name in FORMATTING:
                self._add_formatting(name, markup)
        elif closes_itself:
            return
        self._push(name)

    def close(self, name: str) -> None:
        if self._names and self._names[-1] == name and name not in FORMATTING:
            self._pop_to(len(self._names) - 1)
            return
        places = self._innermost(HEADINGS if name in HEADINGS else (name,))
        if name in TABLE_PARTS or name == "table":
            is_out_of_reach = places < self._innermost(("table", "template"))
        elif name in SPECIAL and name != "p":
            is_out_of_reach = bool(self._scope) and places < self._scope[-1]
        else:
            is_out_of_reach = bool(self._special) and places < self._special[-1]
        if name in FORMATTING:
            if self._scope and 0 <= places < self._scope[-1]:
                return
            self._remove_formatting(name)
            if places >= 0 and is_out_of_reach:
                self._names[self._places[name].pop()] = None
                self._closed += 1
                return
        if places >= 0 and (not is_out_of_reach or name == "template"):
            self._pop_to(places)

    def _close_before(self, name: str) -> None:
        """Close the open tags that this start tag ends. For example, `div` ends `p`."""
        if name in BLOCKS and self._places["p"]:
            self._close_kind(frozenset({"p"}))
        if kind := CLOSED_BY.get(name):
            if name == "a" and self._innermost(("a",)) >= 0:
                self.close("a")
            self._close_kind(kind)
        kind = CLOSED_AT_ONCE.get(name)
        if kind and self._names and self._names[-1] in kind:
            self._pop_to(len(self._names) - 1)

    def _close_kind(self, kind: frozenset[str]) -> None:
        place = self._innermost(kind)
        if kind <= TABLE_PARTS:
            is_out_of_reach = place < self._innermost(("table", "template"))
        else:
            is_out_of_reach = bool(self._special) and place < self._special[-1]
        if place >= 0 and not is_out_of_reach:
            self._pop_to(place)

    def _add_formatting(self, name: str, markup: str) -> None:
        self._formatting[name].append(markup)
        self._open_formatting[markup] += 1

    def _remove_formatting(self, name: str) -> None:
        if tags := self._formatting[name]:
            markup = tags.pop()
            self._open_formatting[markup] -= 1
            if not self._open_formatting[markup]:
                del self._open_formatting[markup]

    @property
    def _foreign_root(self) -> str:
        """`svg` or `math` if the next tag is in a drawing or a formula, or else ''."""
        return self._foreign[-1] if self._foreign else ""

    def _innermost(self, kind: Iterable[str]) -> int:
        """Return the index of the innermost open tag with one of these names, or -1."""
        return max(self._places[name][-1] if self._places[name] else -1 for name in kind)

    def _push(self, name: str) -> None:
        place, within = len(self._names), self._foreign_root
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
        for stack in (self._special, self._scope, self._foreign):
            stack.pop()


def too_deep_error() -> Unreadable:
    return Unreadable("broken", "The page's tags are nested too deep. Save its text and send that.")


def crowded_error() -> Unreadable:
    return Unreadable(
        "broken",
        f"A tag of the page has more than {MAX_ATTRIBUTES} attributes. Save the text of the page "
        "and send that.",
    )
