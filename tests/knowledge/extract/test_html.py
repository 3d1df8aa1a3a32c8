"""Web pages as Markdown."""

from __future__ import annotations

import pytest

from penstock_apps.knowledge.errors import Unreadable
from tests.knowledge.extract.conftest import Read

PAGE = """<!DOCTYPE html><html lang="en"><head><title> Pumps
 and valves </title><meta name="description" content="All of them"><style>p {}</style></head><body>
<nav><a href="/">Home</a></nav><div class="navheader">Prev Next</div>
<h1>Pumps<a class="headerlink" href="#p">¶</a></h1>
<p>A pump moves
   water from <a href="b.html">one place</a> to <b>another</b>. <img src="data:x" alt="A pump"></p>
<div class="note"><h3>Note</h3><p>Fill it first.</p></div>
<h2>Start</h2><pre>
pump start

    # now wait
</pre>
<table><tr><th>Size</th><th>Litres | hour</th></tr><tr><td>small</td><td>100</td></tr></table>
<ul><li>one<ul><li>deeper</li></ul></li><li>two</li></ul>
<script>alert("no")</script><aside>Buy more</aside><footer>Imprint</footer></body></html>"""

MARKDOWN = """# Pumps

A pump moves water from one place to **another**. A pump

**Note**

Fill it first.

## Start

```
pump start

    # now wait
```

| Size | Litres \\| hour |
| --- | --- |
| small | 100 |

- one
  - deeper
- two"""


def text(read: Read, page: str | bytes) -> str:
    return read("page.html", page).sections[0].text


def test_what_is_to_be_read_is_kept_and_what_leads_around_is_not(read: Read) -> None:
    assert text(read, PAGE) == MARKDOWN


def test_the_head_tells_title_language_and_description(read: Read) -> None:
    found = read("page.html", PAGE)
    assert found.title == "Pumps and valves"
    assert found.metadata == {"description": "All of them", "language": "en"}


def test_without_a_title_the_first_heading_is_it(read: Read) -> None:
    assert read("page.html", "<h2>No</h2><h1>Yes</h1><p>x").title == "Yes"


@pytest.mark.parametrize("tag", ["main", "article", "div role=main"])
def test_the_main_part_is_read_alone_where_there_is_one(read: Read, tag: str) -> None:
    page = f"<body><p>Above</p><{tag}><p>Within</p></{tag.split()[0]}><p>Below</p></body>"
    assert text(read, page) == "Within"


def test_several_articles_are_all_read(read: Read) -> None:
    assert text(read, "<article>One</article><article>Two</article>") == "One\n\nTwo"


def test_a_page_that_only_leads_around_is_read_whole(read: Read) -> None:
    assert text(read, "<nav><p>Chapter one</p></nav>") == "Chapter one"


def test_sidebar_is_read_and_its_heading_ends_with_it(read: Read) -> None:
    page = '<h2>Pumps</h2><div class="sidebar"><h3>HISTORY</h3><p>Old.</p></div><p>More.</p>'
    assert text(read, page) == "## Pumps\n\n**HISTORY**\n\nOld.\n\nMore."


@pytest.mark.parametrize(
    ("page", "heads"),
    [
        ("<title>CREATE INDEX</title><h2>CREATE INDEX</h2>a<h2>Notes</h2>b", "# CREATE INDEX"),
        ("<title>3. pg_group</title><h2>3. <code>pg_group</code></h2>a<h3>b</h3>c", "# 3. `pg"),
        ("<title>Pumps at work</title><h1>Pumps</h1>a<h2>Seals</h2>b", "# Pumps"),
        ("<title>Handbook</title><h2>Pumps</h2>a<h2>Seals</h2>b", "## Pumps"),
        ("<h2>Pumps</h2>a", "## Pumps"),
    ],
)
def test_the_title_of_a_page_heads_all_of_its_parts(read: Read, page: str, heads: str) -> None:
    assert text(read, page).startswith(heads)


def test_lines_of_the_source_are_not_lines_of_the_text(read: Read) -> None:
    wrapped = "<p>one two\nthree</p><pre>a\n b</pre>"
    assert text(read, wrapped) == text(read, wrapped.replace("two\n", "two  "))


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ('<meta charset="koi8-r">', "koi8-r"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">', "cp1251"),
        ("", "utf-8"),
        ("", "utf-16"),
    ],
)
def test_the_encoding_is_the_one_the_page_names(read: Read, head: str, encoding: str) -> None:
    assert text(read, f"<html>{head}<p>Насос и клапан".encode(encoding)) == "Насос и клапан"


def test_a_page_without_text_says_so(read: Read) -> None:
    with pytest.raises(Unreadable) as refused:
        read("page.html", "<html><body><script>render()</script></body></html>")
    assert refused.value.reason == "no_text"


@pytest.mark.parametrize("depth", [100, 3_000])
def test_a_page_nested_deeply_gives_what_is_above(read: Read, depth: int) -> None:
    page = "<p>Above</p>" + "<div>" * depth + "Below" + "</div>" * depth
    assert text(read, page).startswith("Above")


def test_a_page_nested_without_end_is_refused_at_once(read: Read) -> None:
    with pytest.raises(Unreadable, match="nested too deep") as refused:
        read("page.html", "<p>Above</p>" + "<div><p>" * 200_000)
    assert refused.value.reason == "broken"


def test_code_keeps_its_lines_beside_misleading_markup(read: Read) -> None:
    code = "<pre>a\n  b</pre>"
    page = f"<!-- <pre> --><p title='<!--'>one\ntwo</p>{code}<p title='<pre'>three\nfour</p>{code}"
    assert text(read, page).count("a\n  b") == 2
    assert "one two" in text(read, page)


@pytest.mark.parametrize("around", ["<ul><li>", "<ol><li>", "<blockquote>", "<ul><li><blockquote>"])
def test_nested_lists_and_quotes_have_bounded_indents(read: Read, around: str) -> None:
    page = f"<p>start</p>{around * 400}" + "<li>x" * 1_000
    text = read("a.html", page).sections[0].text
    assert text.count("x") == 1_000
    assert len(text) < 60 * 1_000


def test_items_of_a_list_too_deep_stand_in_the_one_around_it(read: Read) -> None:
    page = "".join(f"<ul><li>{depth}" for depth in range(12)) + "<li>last" + "</ul>" * 12
    lines = read("a.html", f"<p>start</p>{page}").sections[0].text.split("\n")
    items = [line.strip() for line in lines if line.strip()][1:]
    assert items == [*(f"- {depth}" for depth in range(12)), "- last"]
    assert max(len(line) - len(line.lstrip()) for line in lines) == 2 * 7


def test_words_of_quotes_too_deep_stay_apart(read: Read) -> None:
    page = "<blockquote>" * 12 + "a</blockquote><blockquote>b"
    assert "a b" in read("a.html", f"<p>start</p>{page}").sections[0].text
