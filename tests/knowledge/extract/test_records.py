"""E-mail, tables, JSON and the like."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from email.message import EmailMessage

import pytest

from penstock_apps.knowledge.errors import Unreadable
from penstock_apps.knowledge.text import Attachment
from tests.knowledge.extract.conftest import FILES, Read

PLAIN = "text/plain"


def test_an_email_says_who_wrote_what_and_names_what_is_attached(read: Read) -> None:
    message = EmailMessage()
    message["From"], message["To"] = "Ada <ada@example.org>", "Bob <bob@example.org>"
    message["Subject"] = "Frost – soon"
    message.set_content("Drain the pump – today.")
    message.add_alternative("<p>Drain the pump!</p>", subtype="html")
    message.add_attachment(b"%PDF-", maintype="application", subtype="pdf", filename="plan.pdf")
    found = read("a.eml", message.as_bytes())
    assert found.title == "Frost – soon"
    assert found.sections[0].text == (
        "# Frost – soon\n\nFrom: Ada <ada@example.org>\nTo: Bob <bob@example.org>\n\n"
        "Drain the pump – today.\n\nAttachments: plan.pdf"
    )


def test_what_is_attached_to_an_email_comes_with_its_text(read: Read) -> None:
    message = EmailMessage()
    message.set_content("See below.")
    message.add_attachment("Насос".encode("cp866"), maintype="text", subtype="plain", filename="a")
    message.get_payload()[1].set_param("charset", "cp866")  # type: ignore[union-attr, index]
    message.add_attachment(b"MZ\x00\x01", maintype="application", subtype="x", filename="a.exe")
    logo = {"filename": "logo.png", "cid": "<1>", "disposition": "inline"}
    message.add_attachment(b"\x89PNG", maintype="image", subtype="png", **logo)
    found = read("a.eml", message.as_bytes())
    assert [section.text for section in found.sections] == ["See below.\n\nAttachments: a, a.exe"]
    assert found.attachments == (
        Attachment("a", "text/plain; charset=cp866", "Насос".encode("cp866")),
        Attachment("a.exe", "application/x", b"MZ\x00\x01"),
    )
    assert read("a.eml.gz", gzip.compress(message.as_bytes())).attachments == found.attachments


@pytest.mark.parametrize(
    ("headers", "name", "media_type"),
    [
        ('Content-Disposition: attachment; filename="=?utf-8?B?YQBiLnR4dA==?="', "ab.txt", PLAIN),
        ("Content-Disposition: attachment; filename*=utf-8''nul%00x.txt", "nulx.txt", PLAIN),
        ("Content-Disposition: attachment; filename*=utf-8''a%E2%80%AEtxt.exe", "atxt.exe", PLAIN),
        ("Content-Disposition: attachment; filename*=utf-8''%00", "unnamed", PLAIN),
        ("Content-Disposition: attachment; filename=..", "unnamed", PLAIN),
        ("Content-Disposition: attachment; filename*=utf-16''%00%d8a%00", "unnamed", PLAIN),
        ("Content-Disposition: attachment", "unnamed", PLAIN),
        (
            "Content-Type: text/plain; charset*=utf-16''%00%d8a%00\n"
            "Content-Disposition: attachment; filename=a.txt",
            "a.txt",
            PLAIN,
        ),
        ("Content-Type: text/plain; name=a.txt; charset*=utf-8''a%00b", "a.txt", PLAIN),
        (
            "Content-Type: text/plain; name=a.txt; charset=koi8-r",
            "a.txt",
            f"{PLAIN}; charset=koi8-r",
        ),
    ],
)
def test_what_a_mail_calls_its_attachments_can_be_stored(
    read: Read, headers: str, name: str, media_type: str
) -> None:
    found = read("a.eml", mail_with(headers))
    assert [(each.name, each.media_type) for each in found.attachments] == [(name, media_type)]
    assert found.sections[0].text == f"See below.\n\nAttachments: {name}"


def test_a_mail_within_a_mail_is_kept_whatever_its_headers_are(read: Read) -> None:
    inner = "X-Odd: a\nContent-Disposition: x; filename*=utf-16''%00%d8a%00" + "a" * 100
    found = read("a.eml", mail_with(f"Content-Type: message/rfc822\n\n{inner}"))
    [attachment] = found.attachments
    assert (attachment.name, attachment.media_type) == ("mail.eml", "message/rfc822")
    assert attachment.content.startswith(inner.encode())


def test_a_long_name_of_an_attachment_keeps_its_ending(read: Read) -> None:
    names = "".join(f"; filename*{at}={'a' * 60}" for at in range(9))
    found = read("a.eml", mail_with(f"Content-Disposition: attachment{names}; filename*9=.txt"))
    assert found.attachments[0].name == "a" * 540 + ".txt"


def mail_with(headers: str, text: str = "See below.") -> str:
    start = "Content-Type: multipart/mixed; boundary=x\n\n--x\n\n"
    return f"{start}{text}\n--x\n{headers}\n\nWeirs hold water.\n--x--\n"


def nested(depth: int) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = f"Mail {depth}"
    message.set_content(f"Text {depth}")
    if depth:
        message.add_attachment(nested(depth - 1))
    return message


def test_mails_too_deep_within_each_other_are_named(read: Read) -> None:
    found = read("a.eml", nested(2).as_bytes(), nested=0)
    assert "mail.eml (not read: its mail is nested too deep" in found.sections[0].text
    assert found.attachments == ()


def test_as_many_attachments_come_as_are_allowed(read: Read) -> None:
    message = EmailMessage()
    message.set_content("See below.")
    for number in range(5):
        message.add_attachment(f"Text {number}", filename=f"{number}.txt")
    found = read("a.eml", message.as_bytes(), attachments=2)
    assert [each.name for each in found.attachments] == ["0.txt", "1.txt"]
    assert "4.txt (not read: only 2 of a mail are)" in found.sections[0].text
    assert "more parts" not in found.sections[0].text


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ("Subject: Frost", "Drain \x00the pump."),
        ("Subject: Fr\x00ost\nFrom: a\x00@b", "Drain the pump."),
        ("Subject: Frost\nContent-Type: text/html", "<p>Drain \x00the pump.</p>"),
    ],
)
def test_a_mail_is_read_without_its_nuls(read: Read, headers: str, text: str) -> None:
    found = read("a.eml", f"{headers}\n\n{text}\n")
    assert found.title == "Frost"
    assert found.sections[0].text.endswith("Drain the pump.")
    assert "\ufffd" not in found.sections[0].text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_the_text_of_a_mail_in_utf_16_is_read(read: Read, encoding: str) -> None:
    head = f"Content-Type: text/plain; charset={encoding}\nContent-Transfer-Encoding: base64"
    body = b64encode("Drain the pump.".encode(encoding)).decode()
    assert read("a.eml", f"{head}\n\n{body}\n").sections[0].text == "Drain the pump."


def test_attachments_without_end_are_counted(read: Read) -> None:
    part = "Content-Disposition: attachment; filename={}.txt\n\nWeirs"
    parts = "\n--x\n".join(part.format(number) for number in range(1_500))
    start = "Content-Type: multipart/mixed; boundary=x\n\n--x\n\nSee below.\n--x\n"
    text = read("a.eml", f"{start}{parts}\n--x--\n", attachments=2).sections[0].text
    assert text.startswith("See below.\n\nAttachments: 0.txt, 1.txt, 2.txt (not read: only 2 ")
    assert text.endswith(
        "11.txt (not read: only 2 of a mail are), and 1,488 more parts of the mail"
    )


def test_an_email_of_html_alone_is_read_as_a_page(read: Read) -> None:
    message = EmailMessage()
    message.set_content("<h1>Frost</h1><p>Drain <b>it</b>.</p>", subtype="html")
    assert read("a.eml", message.as_bytes()).sections[0].text == "# Frost\n\nDrain **it**."


@pytest.mark.parametrize(
    ("name", "delimiter"), [("a.csv", ","), ("a.csv", ";"), ("a.tsv", "\t"), ("a.csv", "|")]
)
def test_a_row_names_its_columns(read: Read, name: str, delimiter: str) -> None:
    rows = [["Name", "Litres"], ['"Small\none"', "12"], ["Large", ""]]
    text = "\n".join(delimiter.join(row) for row in rows)
    assert read(name, text).sections[0].text == "Name: Small one; Litres: 12\n\nName: Large"


def test_rows_without_names_stay_a_table(read: Read) -> None:
    assert read("a.csv", "1,2\n3,4\n").sections[0].text == "| 1 | 2 |\n| --- | --- |\n| 3 | 4 |"


def test_json_is_a_paragraph_a_record(read: Read) -> None:
    value = [{"name": "Small", "size": {"litres": 12}, "tags": ["a", "b"], "none": None}, "text"]
    said = "name: Small\nsize.litres: 12\ntags: a, b\n\ntext"
    assert read("a.json", json.dumps(value)).sections[0].text == said
    assert read("a.jsonl", "\n".join(map(json.dumps, value))).sections[0].text == said


def test_a_notebook_keeps_text_and_code_apart(read: Read) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Flow\n", "of water"]},
        {"cell_type": "code", "source": "# no heading\nflow()", "outputs": [{"text": "1"}]},
    ]
    notebook = {"cells": cells, "metadata": {"kernelspec": {"language": "python"}}}
    found = read("a.ipynb", json.dumps(notebook))
    assert found.title == "Flow"
    assert found.sections[0].text == ("# Flow\nof water\n\n```python\n# no heading\nflow()\n```")


def test_rich_text_is_read_without_its_looks(read: Read) -> None:
    text = (
        r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\*\generator X;}\f0 Caf\'e9 \u8364?5"
        r" \u-10179?\u-8694?\par {\b Bold} \{x\}\par}"
    )
    assert read("a.rtf", text).sections[0].text == "Café €5 \U0001f60a\n\nBold {x}"


def test_a_packed_file_is_read_as_what_is_in_it(read: Read) -> None:
    assert read("a.md.gz", gzip.compress(b"# Title\n\ntext")).title == "Title"
    packed = gzip.compress((FILES / "manual.pdf").read_bytes())
    assert read("manual.pdf.gz", packed).kind == "pdf"


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.ipynb"])
def test_what_is_not_what_its_name_says_is_broken(read: Read, name: str) -> None:
    with pytest.raises(Unreadable) as refused:
        read(name, '{"secret": ')
    assert refused.value.reason == "broken"
    assert "secret" not in str(refused.value)
