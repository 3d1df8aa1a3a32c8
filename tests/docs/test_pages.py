"""What the pages show is so: every block of every page is run, or says why it is not."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.docs.page import Page

ROOT = Path(__file__).parents[2]
PAGES = [Page.read(path) for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))]
RUN = [page for page in PAGES if page.blocks and not page.is_generated]


@pytest.mark.timeout(400)  # Some start one process after the other.
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.path.stem)
async def test_a_page_can_be_followed(
    page: Page, follow: Callable[[Page], Awaitable[None]]
) -> None:
    await follow(page)


def test_code_that_uses_penstock_is_never_exempt() -> None:
    exempt = [
        block.place
        for page in PAGES
        for block in page.blocks
        if block.not_run and block.language == "python" and re.search("penstock", block.text)
    ]
    assert not exempt


def test_most_blocks_are_run() -> None:
    blocks = [block for page in PAGES for block in page.blocks]
    exempt = [f"{block.place}: {block.not_run}" for block in blocks if block.not_run]
    assert len(exempt) * 3 < len(blocks), "\n".join(exempt)
