"""How fast a folder is read, PDF beside PDFium alone: -m tests.knowledge.extract.speed DIR."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pypdfium2

from penstock_apps.knowledge.errors import Unreadable
from penstock_apps.knowledge.extract import ReadLimits, extract


def main(folder: Path) -> None:
    pdfs, pages = sorted(folder.rglob("*.pdf")), sorted(folder.rglob("*.htm*"))
    if pdfs:
        ours(pdfs[0])  # its libraries are imported before the clock runs
        # In turns, so that what else goes on hits both alike.
        times = [(seconds(bare, path), seconds(ours, path)) for path in pdfs]
        alone, whole = sum(time[0] for time in times), sum(time[1] for time in times)
        print(
            f"{len(pdfs)} PDF: {len(pdfs) / whole * 60:.0f} a minute, {alone / whole:.2f} of PDFium"
        )
    if pages:
        whole = sum([seconds(ours, path) for path in pages], 0.0)
        print(f"{len(pages)} web pages: {len(pages) / whole:.0f} a second")


def seconds(read: Callable[[Path], None], path: Path) -> float:
    start = process_time()
    read(path)
    return process_time() - start


def ours(path: Path) -> None:
    try:
        extract(path, path.name, limits=ReadLimits(scanned=0))
    except Unreadable as refused:
        print(f"{path.name}: {refused.reason}")


def bare(path: Path) -> None:
    document = pypdfium2.PdfDocument(path)
    for number in range(len(document)):
        page = document[number]
        content = page.get_textpage()
        content.get_text_range()
        content.close()
        page.close()
    document.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
