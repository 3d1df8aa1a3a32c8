"""Small files that become large, and others made or damaged so as to do harm."""

from __future__ import annotations

import gzip
import random
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from penstock_apps.knowledge.errors import Skipped, Unreadable
from tests.knowledge.extract.conftest import FILES, Read

MEGABYTE = 1024 * 1024
OUTCOMES = ("text", "broken", "encrypted", "no_text", "inflates", "unsupported")
RELATIONS = (
    '<Relationships><Relationship Id="r1" Type="x/officeDocument" Target="word/document.xml"/>'
    "</Relationships>"
)


def packed(**parts: bytes) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def document(xml: str) -> bytes:
    return packed(**{"_rels/.rels": RELATIONS.encode(), "word/document.xml": xml.encode()})


def reason(read: Read, name: str, content: bytes, **limits: int) -> str:
    with pytest.raises(Unreadable) as refused:
        read(name, content, **limits)
    return refused.value.reason


def test_a_document_that_claims_to_be_large_is_not_unpacked(read: Read) -> None:
    bomb = packed(**{"word/document.xml": b" " * 2 * MEGABYTE})
    assert reason(read, "a.docx", bomb, inflated=MEGABYTE) == "inflates"


def test_a_part_packed_beyond_belief_is_not_unpacked(read: Read) -> None:
    assert (
        reason(read, "a.docx", packed(**{"word/document.xml": b" " * 11 * MEGABYTE})) == "inflates"
    )


def test_a_document_that_lies_about_its_size_is_cut_short(read: Read) -> None:
    bomb = bytearray(packed(**{"word/document.xml": b" " * MEGABYTE}))
    size = MEGABYTE.to_bytes(4, "little")
    assert bomb.count(size) == 2
    lying = bytes(bomb).replace(size, (1000).to_bytes(4, "little"))
    assert reason(read, "a.docx", lying, inflated=2000) == "broken"


@pytest.mark.parametrize("times", [1, 2])
def test_a_packed_file_that_inflates_is_refused(read: Read, times: int) -> None:
    bomb = b"a" * 20 * MEGABYTE
    for _ in range(times):
        bomb = gzip.compress(bomb)
    assert reason(read, "a.txt.gz", bomb) == "inflates"


@pytest.mark.parametrize(
    "entities",
    [
        '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">',
        '<!ENTITY b SYSTEM "file:///etc/passwd">',
    ],
)
def test_entities_are_refused(read: Read, entities: str) -> None:
    xml = f"<!DOCTYPE d [{entities}]><d><p><r><t>&b;</t></r></p></d>"
    assert reason(read, "a.docx", document(xml)) == "broken"


def test_xml_nested_without_end_is_refused(read: Read) -> None:
    xml = "<d>" + "<x>" * 100_000 + "</x>" * 100_000 + "</d>"
    assert reason(read, "a.docx", document(xml)) == "broken"


def test_a_cell_at_the_end_of_all_columns_is_no_trouble(read: Read) -> None:
    relations = (
        '<Relationships><Relationship Id="r1" Type="x/worksheet" Target="s.xml"/></Relationships>'
    )
    content = packed(
        **{
            "xl/workbook.xml": b'<w xmlns:r="r"><sheet name="S" r:id="r1"/></w>',
            "xl/_rels/workbook.xml.rels": relations.encode(),
            "xl/s.xml": b'<s><row><c r="XFD1048576" t="str"><v>far</v></c></row></s>',
        }
    )
    assert read("a.xlsx", content).sections[0].text == "# S\n\nfar"


def test_a_locked_entry_says_so(read: Read) -> None:
    content = bytearray(packed(**{"word/document.xml": b"<d/>"}))
    content[content.index(b"PK\x01\x02") + 8] |= 1
    assert reason(read, "a.docx", bytes(content)) == "encrypted"


def test_a_locked_office_file_says_so_and_an_old_one_is_skipped(read: Read) -> None:
    ole = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
    locked = ole + "EncryptedPackage".encode("utf-16-le")
    assert reason(read, "a.docx", locked) == "encrypted"
    with pytest.raises(Skipped, match=r"Save it as \.docx"):
        read("a.doc", ole)


@pytest.mark.parametrize("file", sorted(FILES.glob("[!s]*.*")), ids=lambda file: file.name)
def test_a_damaged_file_gives_text_or_a_reason(read: Read, file: Path) -> None:
    chance = random.Random(7)
    whole = file.read_bytes()
    for _ in range(30):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 20)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        kept = chance.choice([len(damaged), len(damaged) // 2])
        assert outcome(read, file.name, bytes(damaged[:kept])) in OUTCOMES


def outcome(read: Read, name: str, content: bytes) -> str:
    try:
        return "text" if read(name, content, scanned=0).sections else "nothing"
    except Unreadable as refused:
        return refused.reason
