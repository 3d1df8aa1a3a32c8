"""Read the main text of web pages as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from html_to_markdown import ConversionOptions, PreprocessingOptions, convert
from selectolax.lexbor import LexborHTMLParser, LexborNode, create_tag

from penstock_apps.knowledge.extract import markup
from penstock_apps.knowledge.extract.detect import declared_encoding, decode
from penstock_apps.knowledge.extract.limits import ReadLimits
from penstock_apps.knowledge.extract.tables import MAX_LIST_DEPTH
from penstock_apps.knowledge.text import Extracted, Section

# These elements are never read.
UNREAD_SELECTOR = (
    "script, style, noscript, template, svg, canvas, iframe, object, dialog, button, select, input"
)
# The navigation is the same on every page of a site. The class names are those of generators of
# manuals (DocBook, Sphinx, Doxygen, MkDocs, Docusaurus) and of many others.
NAVIGATION_SELECTOR = (
    "nav, footer, aside, [role=navigation], [role=search], [role=contentinfo], [hidden], "
    "[aria-hidden=true], .navheader, .navfooter, .toc, .toctree-wrapper, .related, "
    ".sphinxsidebar, .docnav, .breadcrumb, .breadcrumbs, .skip-link, .cookie-banner, .pagination, "
    ".headerlink, .anchor-link, .hash-link, .sr-only"
)
MAIN_SELECTOR = "main, [role=main]"
# A heading such as "Note" belongs to its box, and not to the text that follows.
BOX_CLASSES = ("note", "tip", "important", "warning", "caution", "admonition", "sidebar", "callout")
BOX_HEADING_SELECTOR = ", ".join(f".{box} :is(h1, h2, h3, h4, h5, h6)" for box in BOX_CLASSES)

# The lines of lists and quotes are indented. Those that are nested too deep are unwrapped.
INDENTING_TAGS = frozenset({"ul", "ol", "blockquote"})
INDENTING_SELECTOR = ", ".join(sorted(INDENTING_TAGS))

HEADING = re.compile(r"^(#{2,6}) +(\S.*)$", re.MULTILINE)
MARKDOWN_MARKS = re.compile(r"[\\*`]")
TOP_HEADING = re.compile(r"^# ", re.MULTILINE)
# The lines of preformatted text stay as they are. So do comments, which may contain what looks like
# such text.
VERBATIM_START = re.compile(r"<!--|<pre\b", re.IGNORECASE)
VERBATIM_ENDS = {"<!--": re.compile("-->"), "<pre": re.compile("</pre>", re.IGNORECASE)}
BLANKS = re.compile(r"\s+")
# The options of a select are not read. Parsing them takes the square of their number.
OPTION_TAG = re.compile(r"</?(?=option(?![^\s/>]))", re.IGNORECASE)
MAX_OPTIONS = 2_000
# A cell that declares a larger span would be written as very many empty cells.
PLAUSIBLE_SPAN = re.compile("1?[0-9]")

OPTIONS = ConversionOptions(
    # This module removes elements itself.
    preprocessing=PreprocessingOptions(enabled=False),
    extract_metadata=False,
    autolinks=False,
    bullets="-",
    # With padding, a wider row would change all other rows.
    compact_tables=True,
    # Without this limit the converter would crash on a very deep page.
    max_depth=markup.MAX_DEPTH,
)


def read(path: Path, name: str, limits: ReadLimits, charset: str | None = None) -> Extracted:
    data = path.read_bytes()
    text, title, metadata = read_page(decode(data, charset, declared_encoding(data)))
    return Extracted((Section(text),), kind="html", title=title, metadata=metadata)


def read_page(source: str) -> tuple[str, str | None, dict[str, str]]:
    """Return a page's Markdown, its title, and the metadata in its head."""
    if len(OPTION_TAG.findall(source)) > MAX_OPTIONS:
        source = OPTION_TAG.sub("<!", source)
    markup.check_page(source)
    tree = LexborHTMLParser(source)
    title = tree.css_first("title")
    metadata = head_metadata(tree)
    for node in tree.css(UNREAD_SELECTOR):
        node.decompose()
    text = ""
    if tree.body is not None:
        everything = tree.body.html or ""
        for node in tree.css(NAVIGATION_SELECTOR):
            node.decompose()
        # A page of nothing but navigation, such as the index of a manual, is read as a whole.
        text = to_markdown(main_part(tree)) or to_markdown(LexborHTMLParser(everything))
    title_text = title.text() if title else None
    return raise_title_heading(text, title_text), title_text or first_heading(tree), metadata


def raise_title_heading(text: str, title: str | None) -> str:
    """Raise the page's first heading to level 1 if its words are in the page's title.

    Pages of manuals often lack a heading of level 1. With one, the title is in the path of
    headings of each part of the page, so a search for the title finds the parts, too.
    """
    first = HEADING.search(text)
    if first is None or not title or TOP_HEADING.search(text):
        return text
    words = " ".join(MARKDOWN_MARKS.sub("", first[2].rstrip(" #")).split())
    if words.casefold() not in " ".join(title.split()).casefold():
        return text
    return f"{text[: first.start(1)]}#{text[first.end(1) :]}"


def head_metadata(tree: LexborHTMLParser) -> dict[str, str]:
    metadata = {}
    for name in ("author", "description", "keywords"):
        tag = tree.css_first(f"meta[name={name} i]")
        if tag and (content := tag.attributes.get("content")):
            metadata[name] = content
    root = tree.root
    if root is not None and (language := root.attributes.get("lang")):
        metadata["language"] = language
    return metadata


def main_part(tree: LexborHTMLParser) -> LexborHTMLParser | LexborNode:
    """Return the page's main element, or its only article.

    Return the whole page if it has neither.
    """
    parts = tree.css(MAIN_SELECTOR) or tree.css("article")
    if len(parts) == 1 and parts[0].text(strip=True):
        return parts[0]
    return tree


def to_markdown(part: LexborHTMLParser | LexborNode) -> str:
    """Convert a part of a page to Markdown.

    Links become their text, and pictures become their alternative text.
    """
    for picture in part.css("img"):
        picture.replace_with(picture.attributes.get("alt") or "")
    for heading in part.css(BOX_HEADING_SELECTOR):
        bold = create_tag("strong")
        bold.insert_child(heading.text())
        heading.replace_with(bold)
    for link in part.css("a"):
        link.unwrap()
    for span in ("colspan", "rowspan"):
        for cell in part.css(f"[{span}]"):
            if not PLAUSIBLE_SPAN.fullmatch(cell.attributes.get(span) or ""):
                del cell.attrs[span]
    for node in too_deep_nodes(part):
        # Without the spaces, its first and last word would be joined to the words around it.
        node.insert_before(" ")
        node.insert_after(" ")
        node.unwrap()
    # Line ends in the source of a paragraph mean nothing, and would change its hash.
    return convert("".join(join_lines(part.html or "")), OPTIONS).content or ""


def too_deep_nodes(part: LexborHTMLParser | LexborNode) -> list[LexborNode]:
    """Return the lists and quotes that are nested deeper than `MAX_LIST_DEPTH`."""
    nodes = []
    depths: dict[int, int] = {}
    for node in part.css(INDENTING_SELECTOR):
        # Each element is visited once, however many lists are within it.
        ancestors, above = [node], node.parent
        while above is not None and above.mem_id not in depths:
            ancestors.append(above)
            above = above.parent
        depth = 0 if above is None else depths[above.mem_id]
        for element in reversed(ancestors):
            depth += element.tag in INDENTING_TAGS
            depths[element.mem_id] = depth
        if depth > MAX_LIST_DEPTH:
            nodes.append(node)
    return nodes


def join_lines(source: str) -> Iterator[str]:
    """Yield a page with each run of white space replaced by a single space.

    Preformatted text and comments stay as they are. A missing end tag is searched for only once,
    so that the time does not grow with the square of the number of start tags.
    """
    ends = dict(VERBATIM_ENDS)
    at = 0
    for start in VERBATIM_START.finditer(source):
        kind = start[0].lower()
        if start.start() < at or kind not in ends:
            continue
        end = ends[kind].search(source, start.end())
        if end is None:
            del ends[kind]
            continue
        yield BLANKS.sub(" ", source[at : start.start()])
        yield source[start.start() : end.end()]
        at = end.end()
    yield BLANKS.sub(" ", source[at:])


def first_heading(tree: LexborHTMLParser) -> str | None:
    heading = tree.css_first("h1")
    return heading.text() if heading else None
