"""What it takes to read and cut a file grows with its size, not with the square of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from gzip import compress
from io import BytesIO
from pathlib import Path
from time import thread_time
from xml.etree.ElementTree import fromstring
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from penstock_apps.knowledge.chunk import Chunking, split
from penstock_apps.knowledge.errors import Unreadable
from penstock_apps.knowledge.extract import ReadLimits, extract, office, sniff
from penstock_apps.knowledge.extract.extract import READERS
from penstock_apps.knowledge.extract.markup import MANY_TAGS, MAX_ATTRIBUTES, MAX_DEPTH
from penstock_apps.knowledge.extract.pdf import mark_headings
from tests.knowledge.extract.conftest import Read

Make = Callable[[int], str | bytes]

ROOT = '<Relationships><Relationship Id="r1" Type="x/officeDocument" Target="main.xml"/>'
SHEET = '<Relationships><Relationship Id="r1" Type="x/worksheet" Target="s.xml"/></Relationships>'
ROW = "<tr><tc><p><r><t>x</t></r></p></tc></tr>"


def packed(**parts: str) -> bytes:
    file = BytesIO()
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def word(body: str) -> bytes:
    return packed(**{"_rels/.rels": ROOT + "</Relationships>", "main.xml": f"<d>{body}</d>"})


def workbook(rows: str) -> bytes:
    return packed(
        **{
            "xl/workbook.xml": '<w xmlns:r="r"><sheet name="S" r:id="r1"/></w>',
            "xl/_rels/workbook.xml.rels": SHEET,
            "xl/s.xml": f"<s>{rows}</s>",
        }
    )


def mail(head: str, body: str = "text") -> str:
    return f"{head}\n\n{body}"


def attachments(part: str) -> str:
    return f"Content-Type: multipart/mixed; boundary=a\n\n--a\n\nx\n--a\n{part}\n\nx\n--a--"


def slides(shapes: str, slides: int = 1) -> bytes:
    numbers = range(slides)
    shown = "".join(f'<sldId r:id="r{each}"/>' for each in numbers)
    related = "".join(
        f'<Relationship Id="r{each}" Type="x/slide" Target="s{each}.xml"/>' for each in numbers
    )
    return packed(
        **{
            "ppt/presentation.xml": f'<p xmlns:r="r">{shown}</p>',
            "ppt/_rels/presentation.xml.rels": f"<r>{related}</r>",
        },
        **{f"ppt/s{each}.xml": f"<s>{shapes}</s>" for each in numbers},
    )


def open_document(kind: str, body: str) -> bytes:
    mimetype = f"application/vnd.oasis.opendocument.{kind}"
    return packed(mimetype=mimetype, **{"content.xml": f"<d><body>{body}</body></d>"})


def book(chapters: int, chapter: str) -> bytes:
    numbers = range(chapters)
    items = "".join(
        f'<item id="c{each}" href="c{each}.html" media-type="text/html"/>' for each in numbers
    )
    order = "".join(f'<itemref idref="c{each}"/>' for each in numbers)
    return packed(
        mimetype="application/epub+zip",
        **{
            "META-INF/container.xml": '<c><rootfile full-path="b.opf"/></c>',
            "b.opf": f"<p>{items}{order}</p>",
        },
        **{f"c{each}.html": chapter for each in numbers},
    )


def pdf(pages: int, lines: int) -> bytes:
    """Pages of lines, without the table of what is where: readers find that out."""
    text = b"BT /F 9 Tf 9 780 Td " + b"(A weir holds water.) Tj 0 -12 Td " * lines + b"ET"
    numbers = range(3, 3 + pages)
    kids = " ".join(f"{each + pages} 0 R" for each in numbers)
    objects = [
        b"1 0 obj <</Type /Catalog /Pages 2 0 R>> endobj",
        f"2 0 obj <</Type /Pages /Count {pages} /Kids [{kids}]>> endobj".encode(),
    ]
    for each in numbers:
        objects += [
            b"%d 0 obj <</Length %d>> stream\n%b\nendstream endobj" % (each, len(text), text),
            b"%d 0 obj <</Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R "
            b"/Resources <</Font <</F <</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>>>>>>> "
            b"endobj" % (each + pages, each),
        ]
    return b"%PDF-1.4\n" + b"\n".join(objects) + b"\ntrailer <</Root 1 0 R>>\n%%EOF"


def notebook(source: str, cells: int = 1) -> str:
    cell = {"cell_type": "code", "source": source}
    return json.dumps({"cells": [cell] * cells, "metadata": {}})


OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
NOTE = "<p>x<annotation><p>y</p></annotation></p>"
HARD: dict[str, tuple[str, Make]] = {
    "a page of many tags": ("a.html", lambda n: "<p>x <b>y</b>" * (n // 12)),
    "a page of attributes": ("a.html", lambda n: "<p a=1 b=2 c>x</p>" * (n // 18)),
    "a page of cells": ("a.html", lambda n: "<table><tr>" + "<td>x" * (n // 5)),
    "a page of wide cells": ("a.html", lambda n: "<table>" + "<tr><td colspan=999>x" * (n // 21)),
    "a page of <": ("a.html", lambda n: "<p>" + "<" * n),
    "a page of open <pre": ("a.html", lambda n: "<p>x</p>" + "<pre " * (n // 5)),
    "a page of <pre>": ("a.html", lambda n: "<pre>x</pre>" * (n // 12)),
    "a page of links": ("a.html", lambda n: "<a href=x>y</a>" * (n // 15)),
    "a page of comments": ("a.html", lambda n: "<p>x</p>" + "<!--x" * (n // 5)),
    "a page of <pre in comments": ("a.html", lambda n: "<p>x</p>" + "<!--<pre -->" * (n // 12)),
    "a page of <pre in attributes": ("a.html", lambda n: "<p title='<pre '>x" * (n // 18)),
    "a page of <!-- in attributes": ("a.html", lambda n: "<p title='<!--'>x" * (n // 17)),
    "a page of <a": ("a.html", lambda n: "<p>x</p>" + "<a" * (n // 2)),
    "a page of choices": ("a.html", lambda n: "<p>x<select>" + "<option>x" * (n // 9)),
    "a page of deep lists": ("a.html", lambda n: "<p>x" + "<ul><li>" * 400 + "<li>x" * (n // 5)),
    "a page of lists": ("a.html", lambda n: "<p>x" + "<ul><li>x</ul>" * (n // 14)),
    "a page of deep quotes": (
        "a.html",
        lambda n: "<p>x" + "<blockquote>" * 400 + "<blockquote>x</blockquote>" * (n // 26),
    ),
    "a page of open cells": ("a.html", lambda n: "<table>" + "<tr><td>x<td><p>y" * (n // 17)),
    "a heading of hashes": ("a.html", lambda n: "<title>t</title><h2>x" + "#" * n + "a</h2>"),
    "front matter of blanks": ("a.md", lambda n: "---\na: b" + "  \t " * (n // 4) + "x\n---\ny"),
    "headings of Markdown": ("a.md", lambda n: "# a\n\nb\n\n" * (n // 9)),
    "a heading of blanks": ("a.md", lambda n: "# x" + " #" * (n // 2) + "y"),
    "fences": ("a.md", lambda n: "~~~ x\n````\n" * (n // 11)),
    "one line": ("a.txt", lambda n: "x" * n),
    "words": ("a.txt", lambda n: "word " * (n // 5)),
    "sentences": ("a.txt", lambda n: "A b. " * (n // 5)),
    "blanks": ("a.txt", lambda n: "a" + " " * n + "b"),
    "empty lines": ("a.txt", lambda n: "a" + " \n" * (n // 2) + "b"),
    "marks on one letter": ("a.txt", lambda n: "a" + "\u0301\u0323" * (n // 4)),
    "an old encoding": ("a.txt", lambda n: ("насос вода " * (n // 11)).encode("cp1251")),
    "broken UTF-8": ("a.txt", lambda n: "вода".encode() * (n // 8) + b"\xff" * (n // 40)),
    "rows": ("a.csv", lambda n: "a,b\n" * (n // 4)),
    "short rows below a long one": ("a.csv", lambda n: "1," * (n // 4) + "\n" + "1\n" * (n // 4)),
    "short rows below many names": (
        "a.csv",
        lambda n: ",".join(f"a{each}" for each in range(n // 12)) + "\n" + "1\n" * (n // 4),
    ),
    "an open quote": ("a.csv", lambda n: 'a,b\n"' + "x" * n),
    "records": ("a.json", lambda n: json.dumps([{"a": each} for each in range(n // 12)])),
    "code": ("a.py", lambda n: "   \t \n" * (n // 6) + "x"),
    "rich text": ("a.rtf", lambda n: r"{\rtf1 " + r"a\par " * (n // 6) + "}"),
    "open groups": ("a.rtf", lambda n: r"{\rtf1 " + "{a" * (n // 2)),
    "lines of a mail": ("a.eml", lambda n: mail("Subject: a", "text\n" * (n // 5))),
    "a long subject": ("a.eml", lambda n: mail("Subject: " + "a " * (n // 2))),
    "encoded words": ("a.eml", lambda n: mail("Subject: " + "=?utf-8?q?a?= " * (n // 14))),
    "open encoded words": ("a.eml", lambda n: mail("Subject: " + "=?utf-8?q?a" * (n // 11))),
    "many addresses": ("a.eml", lambda n: mail("To: " + "a@b.c, " * (n // 7))),
    "quoted addresses": ("a.eml", lambda n: mail("To: " + '"a" ' * (n // 4))),
    "a long date": ("a.eml", lambda n: mail("Date: " + "1 " * (n // 2))),
    "parameters": ("a.eml", lambda n: mail("Content-Type: text/plain" + "; a=b" * (n // 5))),
    "a name in parts": (
        "a.eml",
        lambda n: attachments(
            "Content-Disposition: attachment"
            + "".join(f"; filename*{each}=b" for each in range(n // 16))
        ),
    ),
    "headers": ("a.eml", lambda n: mail("\n".join(["X: a"] * (n // 5)))),
    "parts": (
        "a.eml",
        lambda n: mail("Content-Type: multipart/mixed; boundary=a", "--a\n\nx\n" * (n // 7)),
    ),
    "attachments": (
        "a.eml",
        lambda n: mail(
            "Content-Type: multipart/mixed; boundary=a",
            "--a\nContent-Disposition: attachment; filename=b\n\nx\n" * (n // 55),
        ),
    ),
    "paragraphs": ("a.docx", lambda n: word("<p><r><t>x</t></r></p>" * (n // 22))),
    "runs": ("a.docx", lambda n: word(f"<p>{'<r><t>x</t></r>' * (n // 15)}</p>")),
    "short rows below a wide one": (
        "a.docx",
        lambda n: word(f"<tbl><tr>{ROW[4:-5] * (n // 70)}</tr>{ROW * (n // 80)}</tbl>"),
    ),
    "notes of a document": ("a.odt", lambda n: open_document("text", NOTE * (n // 40))),
    "spaces of a document": (
        "a.odt",
        lambda n: open_document("text", '<p>a<s c="9"/></p>' * (n // 18)),
    ),
    "spans within each other": (
        "a.odt",
        lambda n: open_document("text", f"<p>{'<span>' * 200}x{'</span>' * 200}</p>" * (n // 3000)),
    ),
    "rows of an open sheet": (
        "a.ods",
        lambda n: open_document(
            "spreadsheet",
            "<table>"
            + "<table-row><table-cell><p>1</p></table-cell></table-row>" * (n // 60)
            + "</table>",
        ),
    ),
    "open sheets": (
        "a.ods",
        lambda n: open_document(
            "spreadsheet",
            "<table><table-row><table-cell><p>1</p></table-cell></table-row></table>" * (n // 75),
        ),
    ),
    "open slides": (
        "a.odp",
        lambda n: open_document("presentation", "<page><p>x</p></page>" * (n // 21)),
    ),
    "shapes of a slide": ("a.pptx", lambda n: slides("<sp><p><t>x</t></p></sp>" * (n // 25))),
    "slides": ("a.pptx", lambda n: slides("<sp><p><t>x</t></p></sp>", n // 250)),
    "charts of a slide": (
        "a.pptx",
        lambda n: slides("".join(f'<chart id="r{each}"/>' for each in range(n // 18))),
    ),
    "chapters": ("a.epub", lambda n: book(n // 300, "<html><p>x</p></html>")),
    "a long chapter": ("a.epub", lambda n: book(1, "<html>" + "<p>x" * (n // 4))),
    "pages": ("a.pdf", lambda n: pdf(n // 1000, 5)),
    "lines of a page": ("a.pdf", lambda n: pdf(1, n // 33)),
    "code of a notebook": ("a.ipynb", lambda n: notebook("x = 1\n" * (n // 7))),
    "fences of a notebook": ("a.ipynb", lambda n: notebook("```\n" * (n // 5))),
    "cells of a notebook": ("a.ipynb", lambda n: notebook("x", n // 36)),
    "lines of records": ("a.jsonl", lambda n: '{"a": 1}\n' * (n // 9)),
    "a packed text": ("a.txt.gz", lambda n: compress(b"A weir. " * (n // 8))),
    "an old document": ("a.doc", lambda n: OLE + "EncryptedPackag".encode("utf-16-le") * (n // 30)),
    "rows of a sheet": ("a.xlsx", lambda n: workbook("<row><c><v>1</v></c></row>" * (n // 26))),
    "columns of a sheet": (
        "a.xlsx",
        lambda n: workbook(f"<row>{'<c><v>1</v></c>' * (n // 15)}</row>"),
    ),
}


@pytest.mark.parametrize("hard", HARD)
def test_cost_of_a_file_grows_with_its_size(tmp_path: Path, hard: str) -> None:
    """Four times the size takes four times as long; sixteen times as long would be the square."""
    name, make = HARD[hard]
    seconds(tmp_path, name, make(1_000))  # its libraries are imported before the clock runs
    small, large = make(10_000), make(40_000)
    # The processor's time of this thread, the least of several, so that other work counts little.
    times = [(seconds(tmp_path, name, small), seconds(tmp_path, name, large)) for _ in range(2)]
    while not steady(times) and len(times) < 8:
        times.append((seconds(tmp_path, name, small), seconds(tmp_path, name, large)))
    assert steady(times), times


def steady(times: list[tuple[float, float]]) -> bool:
    small, large = (min(each) for each in zip(*times, strict=True))
    return large <= 9 * small + 0.01


def seconds(folder: Path, name: str, content: str | bytes) -> float:
    path = folder / "file"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    start = thread_time()
    with suppress(Unreadable):
        split(extract(path, name, limits=ReadLimits()), Chunking(256))
    return thread_time() - start


def test_each_reader_has_files_that_are_hard_for_it(tmp_path: Path) -> None:
    found = set()
    for name, make in HARD.values():
        path, content = tmp_path / "file", make(1_000)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        found.add(sniff(path, name))
    assert found == READERS.keys() - {"image"}, "pictures are read by a program of its own"


def crowd(attributes: int) -> str:
    return " ".join(f"a{each}='>'" for each in range(attributes))


@pytest.mark.parametrize("before", ["", "<!-- x -->", "<script>a<b</script>", "<p x='<!--'>"])
def test_a_tag_with_attributes_without_end_is_refused_at_once(read: Read, before: str) -> None:
    with pytest.raises(Unreadable, match="more than 500 attributes") as refused:
        read("a.html", f"{before}<p {crowd(300_000)}>text</p>")
    assert refused.value.reason == "broken"


@pytest.mark.parametrize(
    "page",
    [
        f"<p {crowd(MAX_ATTRIBUTES)}>text</p>",
        f"<script>if (a <b {'c ' * 1000})</script><p>text",
        f"<!-- <p {'c ' * 1000} --><p>text",
        f"<p>text<p hidden>{'<i a=1>x</i> ' * 1000}",
    ],
)
def test_what_only_looks_like_a_crowded_tag_is_read(read: Read, page: str) -> None:
    assert read("a.html", page).sections[0].text == "text"


TAGS = 2 * MANY_TAGS


@pytest.mark.parametrize(
    "page",
    [
        *(f"<{tag}>" * TAGS for tag in ("b", "div", "font", "i", "label", "rt", "span", "x-y")),
        *(f"<{within}>" * TAGS for within in ("dd><li", "h1><b", "p><object")),
        "<svg>" + "<g>" * TAGS,
        "<svg>" + "<td>" * TAGS,
        "<svg>" + "<input>" * TAGS,
        "<math>" + "<mrow>" * TAGS,
        "</div>" * TAGS + "<div>" * TAGS,
        "<div></b>" * TAGS,
        ("<x>" * (MAX_DEPTH - 100) + "<div>" + "</x>" * (MAX_DEPTH - 100)) * 20,
        "<svg><style>" + "<x>" * TAGS,
        "<select><style></select>" + "<x>" * TAGS,
        "<! <p x='>" + "<div>" * TAGS + "'>",
        "<svg><![CDATA[> <p x=']]>" + "<g>" * TAGS + "'>",
        "".join(f"<p><b id={each}>" for each in range(TAGS)),
    ],
    ids=lambda page: page[:30],
)
def test_tags_within_each_other_without_end_are_refused(read: Read, page: str) -> None:
    with pytest.raises(Unreadable, match="nested too deep") as refused:
        read("a.html", page)
    assert refused.value.reason == "broken"


@pytest.mark.parametrize(
    "page",
    [
        "<p>x<br>" * TAGS,
        "<ul>" + "<li><p>x" * TAGS,
        "<dl>" + "<dt>x<dd>x" * TAGS,
        "<table>" + "<tr><td>x<td><font size=2>x" * TAGS,
        "<p>x<o:p/></p>" * TAGS,
        "<p><b>x" * TAGS,
        "<b><p>x</b></p>" * TAGS,
        "<svg>" + "<path d='x'/>" * TAGS + "</svg>x",
        "<a name=x><h2>x</h2>x" * TAGS,
        "<select>" + "<option>x" * TAGS + "</select>x",
        "<script>" + "if (a <b) c;" * TAGS + "</script>x",
    ],
    ids=lambda page: page[:30],
)
def test_tags_that_are_only_not_closed_are_read(read: Read, page: str) -> None:
    assert "x" in read("a.html", page).sections[0].text


def test_a_cell_is_as_wide_as_it_is_said_to_be_within_reason(read: Read) -> None:
    page = "<table><tr><th colspan=2>a<tr><td>b<td>c<tr><td colspan=999999>d</table>"
    assert len(read("a.html", page).sections[0].text) < 100


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
@pytest.mark.parametrize("depth", [200, 100_000])
def test_values_nested_without_end_are_refused(read: Read, name: str, depth: int) -> None:
    with pytest.raises(Unreadable, match="nested more than 100 deep") as refused:
        read(name, '{"a":' * depth + "1" + "}" * depth)
    assert refused.value.reason == "broken"


def test_tables_nested_without_end_are_refused(read: Read) -> None:
    table = "<tbl><tr><tc>" * 300 + "<p><r><t>x</t></r></p>" + "</tc></tr></tbl>" * 300
    with pytest.raises(Unreadable, match="tables or other parts are nested too deep") as refused:
        read("a.docx", word(table))
    assert refused.value.reason == "broken"


def test_json_names_that_fill_memory_are_refused(read: Read) -> None:
    value = {"a" * 1000: [{"b": each} for each in range(1000)]}
    with pytest.raises(Unreadable) as refused:
        read("a.json", json.dumps(value), characters=100_000)
    assert refused.value.reason == "too_large"


DEEP = 50


@pytest.mark.parametrize(
    ("read_xml", "around", "within"),
    [
        (
            lambda xml: office.docx_blocks(xml, {}),
            "<p><r><txbxContent>{}</txbxContent></r></p>",
            "t",
        ),
        (lambda xml: office.docx_blocks(xml, {}), "<tbl><tr><tc>{}</tc></tr></tbl>", "t"),
        (office.pptx_blocks, "<tbl><tr><tc>{}</tc></tr></tbl>", "t"),
        (office.odf_blocks, "<p><frame><text-box>{}</text-box></frame></p>", None),
        (
            office.odf_blocks,
            "<table><table-row><table-cell>{}</table-cell></table-row></table>",
            None,
        ),
    ],
)
def test_what_is_nested_is_read_once(
    read_xml: Callable[..., object], around: str, within: str | None
) -> None:
    xml = f"<p><r><{within}>word</{within}></r></p>" if within else "<p>word</p>"
    for _ in range(DEEP):
        xml = around.format(xml)
    blocks = [*read_xml(fromstring(f"<d>{xml}</d>"))]  # type: ignore[call-overload]
    assert "".join(blocks).count("word") == 1


def test_bookmarks_of_a_long_page_are_found_in_one_pass() -> None:
    class Line(str):
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Line.compared += 1
            return str.__eq__(self, other)

    text = "\n".join(f"line {each}" for each in range(2000))
    missing = [(Line(f"nowhere {each}"), 2) for each in range(2000)]
    assert mark_headings(text, missing) == text
    assert Line.compared < 4000
