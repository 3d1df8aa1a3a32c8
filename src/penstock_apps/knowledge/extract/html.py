"""Web pages: what is to be read of them, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from html_to_markdown import ConversionOptions, PreprocessingOptions, convert
from selectolax.lexbor import LexborHTMLParser, LexborNode, create_tag

from penstock_apps.knowledge.extract import markup
from penstock_apps.knowledge.extract.detect import declared_in, decode
from penstock_apps.knowledge.extract.limits import Limits
from penstock_apps.knowledge.extract.tables import MAX_LIST_DEPTH
from penstock_apps.knowledge.text import Extracted, Section

# Never read, wherever they stand.
UNREAD = (
    "script, style, noscript, template, svg, canvas, iframe, object, dialog, button, select, input"
)
# What leads around a site and is the same on every page of it. Class names are those of the
# generators of manuals (DocBook, Sphinx, Doxygen, MkDocs, Docusaurus) and of many others.
AROUND = (
    "nav, footer, aside, [role=navigation], [role=search], [role=contentinfo], [hidden], "
    "[aria-hidden=true], .navheader, .navfooter, .toc, .toctree-wrapper, .related, "
    ".sphinxsidebar, .docnav, .breadcrumb, .breadcrumbs, .skip-link, .cookie-banner, .pagination, "
    ".headerlink, .anchor-link, .hash-link, .sr-only"
)
MAIN = "main, [role=main]"
# "Note" above a box heads that box, not all that follows it.
BOXES = ("note", "tip", "important", "warning", "caution", "admonition", "sidebar", "callout")
BOXED = ", ".join(f".{box} :is(h1, h2, h3, h4, h5, h6)" for box in BOXES)

# Lists and quotes, whose lines are indented; those that are deeper than this are no deeper.
INDENTING_TAGS = frozenset({"ul", "ol", "blockquote"})
INDENTING = ", ".join(sorted(INDENTING_TAGS))

HEADING = re.compile(r"^(#{2,6}) +(\S.*)$", re.MULTILINE)
MARKS = re.compile(r"[\\*`]")
HIGHEST = re.compile(r"^# ", re.MULTILINE)
# Kept as it is: text whose lines matter, and comments, which may contain what looks like such text.
KEPT = re.compile(r"<!--|<pre\b", re.IGNORECASE)
KEPT_END = {"<!--": re.compile("-->"), "<pre": re.compile("</pre>", re.IGNORECASE)}
BLANKS = re.compile(r"\s+")
# The options of a select are not read, and parsing them takes the square of their number.
OPTION = re.compile(r"</?(?=option(?![^\s/>]))", re.IGNORECASE)
MANY_OPTIONS = 2_000
# A cell that is said to be wider or higher would be written out as many empty ones.
SPAN = re.compile("1?[0-9]")

OPTIONS = ConversionOptions(
    # What is dropped, is dropped here.
    preprocessing=PreprocessingOptions(enabled=False),
    extract_metadata=False,
    autolinks=False,
    bullets="-",
    # Padding would change every row with the widest of them.
    compact_tables=True,
    # A deeper page is no text; its converter would go down with it.
    max_depth=markup.DEPTH,
)


def read(path: Path, name: str, limits: Limits, charset: str | None = None) -> Extracted:
    data = path.read_bytes()
    text, title, metadata = page(decode(data, charset, declared_in(data)))
    return Extracted((Section(text),), kind="html", title=title, metadata=metadata)


def page(source: str) -> tuple[str, str | None, dict[str, str]]:
    """The Markdown, the title and what the head says of a page."""
    if len(OPTION.findall(source)) > MANY_OPTIONS:
        source = OPTION.sub("<!", source)
    markup.check(source)
    tree = LexborHTMLParser(source)
    title = tree.css_first("title")
    metadata = named(tree)
    for node in tree.css(UNREAD):
        node.decompose()
    text = ""
    if tree.body is not None:
        everything = tree.body.html or ""
        for node in tree.css(AROUND):
            node.decompose()
        # A page that only leads around is still better than none: the index of a manual.
        text = markdown(readable(tree)) or markdown(LexborHTMLParser(everything))
    told = title.text() if title else None
    return headed(text, told), told or first_heading(tree), metadata


def headed(text: str, title: str | None) -> str:
    """With the title above all other headings, where the page has it among them.

    Pages of manuals do, and each of their parts is found by the name of what it is about.
    """
    first = HEADING.search(text)
    if first is None or not title or HIGHEST.search(text):
        return text
    words = " ".join(MARKS.sub("", first[2].rstrip(" #")).split())
    if words.casefold() not in " ".join(title.split()).casefold():
        return text
    return f"{text[: first.start(1)]}#{text[first.end(1) :]}"


def named(tree: LexborHTMLParser) -> dict[str, str]:
    metadata = {}
    for name in ("author", "description", "keywords"):
        found = tree.css_first(f"meta[name={name} i]")
        if found and (content := found.attributes.get("content")):
            metadata[name] = content
    root = tree.root
    if root is not None and (language := root.attributes.get("lang")):
        metadata["language"] = language
    return metadata


def readable(tree: LexborHTMLParser) -> LexborHTMLParser | LexborNode:
    """The part that the page itself calls its main one, or its only article."""
    found = tree.css(MAIN) or tree.css("article")
    if len(found) == 1 and found[0].text(strip=True):
        return found[0]
    return tree


def markdown(part: LexborHTMLParser | LexborNode) -> str:
    """Text of links without their targets, of pictures what stands for them."""
    for picture in part.css("img"):
        picture.replace_with(picture.attributes.get("alt") or "")
    for heading in part.css(BOXED):
        bold = create_tag("strong")
        bold.insert_child(heading.text())
        heading.replace_with(bold)
    for link in part.css("a"):
        link.unwrap()
    for span in ("colspan", "rowspan"):
        for cell in part.css(f"[{span}]"):
            if not SPAN.fullmatch(cell.attributes.get(span) or ""):
                del cell.attrs[span]
    for node in too_deep(part):
        # Else its first and last word would be one with those around it.
        node.insert_before(" ")
        node.insert_after(" ")
        node.unwrap()
    # Where a paragraph's lines end in the source means nothing; it would only change its hash.
    return convert("".join(unwrapped(part.html or "")), OPTIONS).content or ""


def too_deep(part: LexborHTMLParser | LexborNode) -> list[LexborNode]:
    """The lists and quotes that stand in too many others: each indents all lines within it."""
    found = []
    depths: dict[int, int] = {}
    for node in part.css(INDENTING):
        # Each element is climbed once, however many lists are within it.
        climbed, above = [node], node.parent
        while above is not None and above.mem_id not in depths:
            climbed.append(above)
            above = above.parent
        depth = 0 if above is None else depths[above.mem_id]
        for element in reversed(climbed):
            depth += element.tag in INDENTING_TAGS
            depths[element.mem_id] = depth
        if depth > MAX_LIST_DEPTH:
            found.append(node)
    return found


def unwrapped(source: str) -> Iterator[str]:
    """Put a page on one line, except for what is kept. Search for a missing end tag only once."""
    ends = dict(KEPT_END)
    at = 0
    for opened in KEPT.finditer(source):
        kind = opened[0].lower()
        if opened.start() < at or kind not in ends:
            continue
        closed = ends[kind].search(source, opened.end())
        if closed is None:
            del ends[kind]
            continue
        yield BLANKS.sub(" ", source[at : opened.start()])
        yield source[opened.start() : closed.end()]
        at = closed.end()
    yield BLANKS.sub(" ", source[at:])


def first_heading(tree: LexborHTMLParser) -> str | None:
    found = tree.css_first("h1")
    return found.text() if found else None
