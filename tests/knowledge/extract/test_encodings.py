"""Text in the encodings that were in use before UTF-8: read as it was written, or refused."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from email.message import EmailMessage
from io import BytesIO
from pathlib import Path
from random import Random
from zipfile import ZipFile

import pytest

from penstock_apps.knowledge.errors import Unreadable
from penstock_apps.knowledge.extract import extract
from tests.knowledge.extract.conftest import Read

RUSSIAN = "Закройте клапан, прежде чем снимать насос: вода течёт ещё несколько минут."
UKRAINIAN = "Закрийте клапан, перш ніж знімати насос: вода тече ще кілька хвилин, її багато."
JAPANESE = "ポンプを外す前にバルブを閉めてください。水は数分間流れ続けます。"
CHINESE = "拆下水泵之前请先关闭阀门，水还会继续流几分钟。"
TAIWANESE = "拆下水泵之前請先關閉閥門，水還會繼續流幾分鐘。"
KOREAN = "펌프를 분리하기 전에 밸브를 잠그십시오. 물은 몇 분 동안 계속 흐릅니다."
GREEK = "Κλείστε τη βαλβίδα πριν αφαιρέσετε την αντλία: το νερό τρέχει για λίγα λεπτά."
HEBREW = "סגור את השסתום לפני הסרת המשאבה: המים ממשיכים לזרום מספר דקות."
ARABIC = "أغلق الصمام قبل إزالة المضخة: يستمر الماء في التدفق لبضع دقائق."
THAI = "ปิดวาล์วก่อนถอดปั๊ม น้ำจะยังคงไหลต่อไปอีกสองสามนาที"
TURKISH = "Pompayı çıkarmadan önce vanayı kapatın: su birkaç dakika daha akar, şişeyi boşaltın."
POLISH = "Zamknij zawór przed zdjęciem pompy: woda płynie jeszcze kilka minut, więc użyj miski."
CZECH = "Před vyjmutím čerpadla zavřete ventil: voda teče ještě několik minut, použijte kbelík."
FRENCH = "Fermez la vanne avant de déposer la pompe : l’eau coule après l’arrêt, même à froid."
GERMAN = "Schließen Sie das Ventil, bevor Sie die Pumpe ausbauen: Wasser läuft für Minuten nach."

LEGACY = [
    (RUSSIAN, "cp1251"),
    (RUSSIAN, "koi8-r"),
    (RUSSIAN, "iso8859-5"),
    (RUSSIAN, "cp866"),
    (UKRAINIAN, "cp1251"),
    (UKRAINIAN, "koi8-u"),
    (JAPANESE, "shift_jis"),
    (JAPANESE, "euc_jp"),
    (JAPANESE, "iso2022_jp"),
    (CHINESE, "gbk"),
    (CHINESE, "gb18030"),
    (TAIWANESE, "big5"),
    (KOREAN, "euc_kr"),
    (GREEK, "cp1253"),
    (HEBREW, "cp1255"),
    (ARABIC, "cp1256"),
    (THAI, "tis-620"),
    (TURKISH, "cp1254"),
    (POLISH, "cp1250"),
    (POLISH, "iso8859-2"),
    (CZECH, "cp1250"),
    (FRENCH, "cp1252"),
    (GERMAN, "cp1252"),
    (GERMAN, "cp850"),
]
NAMED = [pytest.param(text, encoding, id=encoding) for text, encoding in LEGACY]


@pytest.mark.parametrize(("text", "encoding"), NAMED)
def test_undeclared_encoding_is_detected(read: Read, text: str, encoding: str) -> None:
    assert read("notes.txt", text.encode(encoding)).sections[0].text == text


@pytest.mark.parametrize(("text", "encoding"), NAMED)
def test_encoding_is_detected_behind_much_markup_and_numbers(
    read: Read, text: str, encoding: str
) -> None:
    numbers = "".join(f"<i>{number}</i>\n" for number in range(5_000))
    page = f"<html><body><div>{numbers}</div><p>{text}</p>".encode(encoding)
    assert text in read("page.html", page).sections[0].text
    rows = "Id,Note\n" + "".join(f"{number},none\n" for number in range(5_000)) + f'0,"{text}"'
    assert f"Note: {text}" in read("notes.csv", rows.encode(encoding)).sections[0].text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", [RUSSIAN, KOREAN, GREEK, HEBREW, THAI + "\n", JAPANESE + "\n"])
def test_utf_16_without_a_mark_is_read_in_any_script(read: Read, text: str, encoding: str) -> None:
    assert read("notes.txt", text.encode(encoding)).sections[0].text == text.strip()


@pytest.mark.parametrize(("text", "encoding"), NAMED)
def test_markdown_json_and_gzip_are_read_in_their_encoding(
    read: Read, text: str, encoding: str
) -> None:
    assert read("a.md", f"# {text}\n".encode(encoding)).title == text
    value = json.dumps({"note": text}, ensure_ascii=False).encode(encoding)
    assert read("a.json", value).sections[0].text == f"note: {text}"
    assert read("a.txt.gz", gzip.compress(text.encode(encoding))).sections[0].text == text


SHORT = "Насос"


@pytest.mark.parametrize(
    ("name", "before", "encoding"),
    [
        ("a.html", '<meta charset="x-mac-cyrillic">', "mac-cyrillic"),
        ("a.html", '<?xml version="1.0" encoding="KOI8-R"?><html>', "koi8-r"),
        ("a.html", f"<!-- {'-' * 3000} --><meta charset=windows-1251>", "cp1251"),
        ("a.xml", "<?xml version='1.0' encoding='ISO-8859-5'?>", "iso8859-5"),
        ("a.py", "#!/usr/bin/env python\n# -*- coding: cp866 -*-\n", "cp866"),
    ],
)
def test_a_short_text_is_read_in_the_encoding_that_it_declares(
    read: Read, name: str, before: str, encoding: str
) -> None:
    content = f"{before}\n<p>{SHORT}</p>".encode(encoding)
    assert SHORT in read(name, content).sections[0].text


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.md", "a.html", "a.py", "a.txt.gz"])
def test_the_sender_may_declare_the_encoding(tmp_path: Path, name: str) -> None:
    path = tmp_path / "file"
    content = SHORT.encode("cp866")
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    found = extract(path, name, media_type='text/plain; charset="IBM866"')
    assert SHORT in found.sections[0].text


def test_the_sender_is_asked_before_the_page(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(f'<meta charset="koi8-r"><p>{SHORT}'.encode("cp866"))
    found = extract(path, "a.html", media_type="text/html; charset=cp866")
    assert found.sections[0].text == SHORT


@pytest.mark.parametrize("declared", ["iso-8859-1", "us-ascii", "windows-1252", "koi8-r"])
@pytest.mark.parametrize(
    ("text", "encoding"), [(RUSSIAN, "cp1251"), (JAPANESE, "shift_jis"), (CHINESE, "gbk")]
)
def test_impossible_declared_encoding_is_ignored(
    read: Read, text: str, encoding: str, declared: str
) -> None:
    page = f'<meta charset="{declared}"><p>{text}</p>'.encode(encoding)
    assert read("a.html", page).sections[0].text == text


@pytest.mark.parametrize("declared", ["punycode", "idna", "unicode_escape", "zlib", "nonsense"])
def test_a_declared_name_that_is_no_encoding_is_passed_over(read: Read, declared: str) -> None:
    page = f'<meta charset="{declared}"><p>{RUSSIAN}</p>'.encode("cp1251")
    assert read("a.html", page).sections[0].text == RUSSIAN


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.html", "a.md"])
def test_text_that_fits_no_encoding_is_refused_with_a_remedy(read: Read, name: str) -> None:
    chance = Random(3)
    noise = bytes(chance.randrange(lowest, 256) for _ in range(4000) for lowest in (48, 128))
    with pytest.raises(Unreadable, match="save it as UTF-8") as refused:
        read(name, noise)
    assert refused.value.reason == "encoding"


def test_a_damaged_byte_leaves_the_rest_of_a_legacy_text_whole(read: Read) -> None:
    text = "\n".join([JAPANESE] * 20)
    found = read("a.txt", text.encode("shift_jis") + b"\xff\n" + JAPANESE.encode("shift_jis"))
    assert found.sections[0].text.startswith(text)
    assert found.sections[0].text.endswith(JAPANESE)


def test_book_chapter_is_read_in_its_declared_encoding(read: Read) -> None:
    chapter = f'<?xml version="1.0" encoding="windows-1251"?><html><p>{SHORT}</p></html>'
    file = BytesIO()
    with ZipFile(file, "w") as book:
        book.writestr("mimetype", "application/epub+zip")
        book.writestr("META-INF/container.xml", '<c><rootfile full-path="b.opf"/></c>')
        book.writestr(
            "b.opf",
            '<p><manifest><item id="a" href="a.html" media-type="text/html"/></manifest>'
            '<spine><itemref idref="a"/></spine></p>',
        )
        book.writestr("a.html", chapter.encode("cp1251"))
    assert read("a.epub", file.getvalue()).sections[0].text == SHORT


@pytest.mark.parametrize(("text", "encoding"), NAMED)
def test_the_body_of_an_email_is_read_in_its_encoding(read: Read, text: str, encoding: str) -> None:
    head = b"From: a@example.org\nMIME-Version: 1.0\nContent-Type: text/plain%s\n"
    head += b"Content-Transfer-Encoding: 8bit\n\n"
    for declared in (b"", b"; charset=us-ascii", b"; charset=unknown-8bit"):
        assert text in read("a.eml", head % declared + text.encode(encoding)).sections[0].text


@pytest.mark.parametrize("encoding", ["cp1251", "koi8-r"])
def test_the_headers_of_an_email_are_read_in_their_encoding(read: Read, encoding: str) -> None:
    content = f"Subject: {RUSSIAN}\nFrom: {SHORT} <a@example.org>\n\n{RUSSIAN}".encode(encoding)
    found = read("a.eml", content)
    assert found.title == RUSSIAN
    assert found.metadata["from"] == f"{SHORT} <a@example.org>"


def test_mail_header_is_read_in_the_superset_of_its_encoding(read: Read) -> None:
    word = f"=?gb2312?B?{b64encode('镕基谈水泵'.encode('gbk')).decode()}?="
    assert read("a.eml", f"Subject: {word}\n\ntext").title == "镕基谈水泵"


def test_a_declared_encoding_of_an_email_is_used(read: Read) -> None:
    message = EmailMessage()
    message.set_content(SHORT, charset="cp866")
    assert SHORT in read("a.eml", message.as_bytes()).sections[0].text


def rich(text: str, encoding: str) -> str:
    return "".join(f"\\'{byte:02x}" for byte in text.encode(encoding))


@pytest.mark.parametrize(
    ("head", "text", "encoding"),
    [
        (r"\ansi\ansicpg1251", RUSSIAN, "cp1251"),
        (r"\ansi\ansicpg932", JAPANESE, "cp932"),
        (r"\ansi\ansicpg10007", RUSSIAN, "mac-cyrillic"),
        (r"\mac", "café", "mac-roman"),
        (r"\pc", "café", "cp437"),
        (r"\pca", "café", "cp850"),
        (
            r"\ansi\ansicpg1252{\fonttbl{\f0\fcharset0 A;}{\f1\fcharset204 B;}}\f1",
            RUSSIAN,
            "cp1251",
        ),
        (r"\ansi\deff1{\fonttbl{\f0\fcharset0 A;}{\f1\fcharset128 B;}}", JAPANESE, "cp932"),
    ],
)
def test_rich_text_is_read_in_the_encoding_of_its_font(
    read: Read, head: str, text: str, encoding: str
) -> None:
    found = read("a.rtf", rf"{{\rtf1{head} {rich(text, encoding)}\par}}")
    assert found.sections[0].text.strip() == text


def test_rtf_characters_may_be_partly_escaped(read: Read) -> None:
    assert "表".encode("cp932") == b"\x95\\"
    content = rb"{\rtf1\ansi\ansicpg932 \'83A\'83\'43 " + "水".encode("cp932") + rb"\par}"
    assert read("a.rtf", content).sections[0].text == "アイ 水"


def test_the_font_of_rich_text_ends_with_its_group(read: Read) -> None:
    fonts = r"{\fonttbl{\f0\fcharset0 A;}{\f1\fcharset204 B;}}"
    words = rf"{{\f1 {rich('вода', 'cp1251')}}} {rich('été', 'cp1252')}"
    text = rf"{{\rtf1\ansi\ansicpg1252\deff0{fonts}{words}}}"
    assert read("a.rtf", text).sections[0].text == "вода été"
