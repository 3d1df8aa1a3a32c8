"""A reader who does all that a page says, and believes nothing."""

import re
from itertools import pairwise
from pathlib import Path

from tests.docs.module import PageModule
from tests.docs.page import Block, Page
from tests.docs.said import expect
from tests.docs.shell import Shell, commands_of


class Reader:
    """Follows a page in a folder, from top to bottom."""

    def __init__(self, folder: Path, url: str | None, admin_url: str) -> None:
        self._folder = folder
        self._shell = Shell(folder, url, admin_url)
        self._module = PageModule(folder)

    async def follow(self, page: Page) -> None:
        """Do what the page says; AssertionError where it is not so."""
        _expect_used(page.blocks)
        for block, after in pairwise([*page.blocks, None]):
            assert block is not None
            said = None if block.not_run else await self._said(block)
            if after and after.language == "text" and not after.not_run:
                assert said is not None, f"{after.place}: nothing before it says this"
                expect(after.place, said, after.text)
            elif block.language == "python":
                assert not said, f"{block.place}: the page does not show what this prints: {said}"

    async def close(self) -> None:
        try:
            await self._shell.close()
        finally:
            await self._module.close()

    async def _said(self, block: Block) -> str | None:
        """What a block says for a text block to show; None if there is nothing to compare with."""
        match block.language:
            case "python" if block.file:
                self._write(block.file, block.text)
            case "python":
                return await self._module.run(block)
            case "sql":
                return await self._shell.sql(block)
            case "console":
                for command in commands_of(block):
                    await self._shell.run(command)
            case "text":
                pass
            case language:
                raise AssertionError(
                    f"{block.place}: no test runs this {language} block. Make it python, console, "
                    "sql or text, or say why before it: <!-- not run: a reason -->"
                )
        return None

    def _write(self, name: str, text: str) -> None:
        file = self._folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def _expect_used(blocks: tuple[Block, ...]) -> None:
    """A file that a page shows is only tried if something imports or runs it."""
    for number, block in enumerate(blocks):
        if block.file and not block.not_run:
            stem = Path(block.file).stem
            after = "".join(later.text for later in blocks[number + 1 :])
            used = re.search(rf"\b{stem}\b", after)
            assert used, f"{block.place}: nothing on the page uses {block.file}"
