"""`penstock ingest --prune`: documents whose files are gone."""

import os
import shutil
from email.message import EmailMessage
from pathlib import Path

import pytest

from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.sources import NewSource
from tests.cli.command import Commands
from tests.knowledge.cli.conftest import KEYS, TRAVEL, said, said_with_help
from tests.knowledge.scene import Scene

CONTENTS = {"keys.md": KEYS, "office/travel.md": TRAVEL, ".hidden.md": "nobody sees this"}


@pytest.fixture
async def shelved(scene: Scene, library: Library, handbook: Path) -> Path:
    """The handbook, all of it taken in as acme's, with the hidden file, as if that was named."""
    source = NewSource("files", handbook.name, str(handbook))
    await scene.bring(library, CONTENTS, base="default", source=source)
    return handbook


async def paths(scene: Scene) -> set[str]:
    """Those of all documents there are rows of."""
    return {row["path"] for row in await scene.rows("SELECT path FROM k.document")}


async def test_what_is_gone_is_told_and_deleted_only_if_that_is_wanted(
    penstock: Commands, shelved: Path, scene: Scene
) -> None:
    shutil.rmtree(shelved / "office")
    asked = ("ingest", "handbook", "--tenant", "acme")
    kept = said(penstock, *asked)
    assert (kept["unchanged"], kept["gone"]) == (1, 1)
    assert "removed" not in kept
    told = penstock.run(*asked).stdout
    assert "1 document has no file any more: --prune deletes such documents." in told
    # Who names a file says nothing about its folder.
    assert "gone" not in said(penstock, "ingest", "handbook/keys.md", "--tenant", "acme", "--prune")
    assert await paths(scene) == set(CONTENTS)

    pruned = said(penstock, *asked, "--prune")
    assert (pruned["unchanged"], pruned["failed"], pruned["removed"]) == (1, 0, 1)
    assert "gone" not in pruned
    # Not only found no more: nothing of it is left. What is hidden is not gone.
    assert await paths(scene) == {"keys.md", ".hidden.md"}
    assert "1 file: 1 unchanged." in penstock.run(*asked, "--prune").stdout


async def test_attachments_are_told_and_go_with_their_mail_alone(
    penstock: Commands, handbook: Path, scene: Scene
) -> None:
    message = EmailMessage()
    message.set_content("See the attached.")
    message.add_attachment("Drain the casing.", filename="frost.txt")
    message.add_attachment(b"MZ\x00\x01", maintype="application", subtype="x", filename="a.exe")
    (handbook / "a.eml").write_bytes(message.as_bytes())
    asked = ("ingest", "handbook/a.eml", "--tenant", "acme", "--prune")
    first = await said_with_help(penstock, scene, *asked)
    assert (first["total"], first["completed"], first["skipped"]) == (3, 2, 1)
    whole = ("ingest", "handbook", "--tenant", "acme", "--prune")
    again = await said_with_help(penstock, scene, *whole)
    assert (again["unchanged"], again["removed"]) == (1, 0)
    assert {"a.eml", "a.eml/a.exe", "a.eml/frost.txt"} < await paths(scene)
    (handbook / "a.eml").unlink()
    said(penstock, *whole)
    assert await paths(scene) == {"keys.md", "office/travel.md"}


def moved_to(folder: Path, name: str) -> Path:
    return folder.rename(folder.with_name(name))


async def test_renamed_folder_is_told_with_what_removes_its_old_source(
    penstock: Commands, shelved: Path, scene: Scene
) -> None:
    old = str(await scene.value("SELECT id FROM k.source"))
    # Of another machine, perhaps: nothing of it is here.
    other = NewSource("files", "elsewhere", "/nowhere/elsewhere")
    library = scene.knowledge.of(scene.runtime, "acme")
    await scene.add(library, {"else.md": "Something else."}, base="default", source=other)
    moved = moved_to(shelved, "manual")
    asked = ("ingest", str(moved), "--tenant", "acme", "--no-wait")
    [told] = said(penstock, *asked)["renamed"]
    assert (told["source"], told["folder"], told["documents"]) == (old, str(shelved), 3)
    assert told["remedy"] == f"penstock knowledge delete source {old} --tenant acme"
    shown = penstock.run(*asked)
    assert (
        f"The folder {shelved} no longer exists, and its files are in this folder now."
        in shown.stdout
    )
    assert f"To remove what came from there, run `{told['remedy']}`." in shown.stdout

    penstock.run(*told["remedy"].split()[1:], "--yes")
    assert "renamed" not in said(penstock, *asked)


async def test_folder_that_is_there_as_well_is_no_renamed_one(
    penstock: Commands, shelved: Path
) -> None:
    copied = shutil.copytree(shelved, shelved.with_name("manual"))
    assert "renamed" not in said(penstock, "ingest", str(copied), "--tenant", "acme", "--no-wait")


async def test_prune_spares_folders_that_are_empty_or_partly_read(
    penstock: Commands, shelved: Path, scene: Scene
) -> None:
    asked = ("ingest", "handbook", "--tenant", "acme", "--prune")
    (shelved / "keys.md").unlink()
    buried = bury(shelved / "deep")
    part = said(penstock, *asked, code=3)
    assert (part["unchanged"], part["removed"]) == (1, 0)
    [error] = part["errors"]
    assert error["reason"] == "It cannot be read: File name too long."
    shutil.rmtree(buried)

    shutil.rmtree(shelved)
    assert "There is no file or folder" in penstock.run(*asked).stderr
    make(shelved)
    empty = said(penstock, *asked, code=3)
    assert empty["removed"] == 0
    [error] = empty["errors"]
    assert error["path"] == str(shelved)
    assert "nothing was pruned" in error["reason"]
    assert f"delete source {shelved} --tenant acme` deletes its 3 documents" in error["reason"]
    assert await paths(scene) == set(CONTENTS)


def make(folder: Path) -> None:
    folder.mkdir()


def bury(folder: Path) -> Path:
    """A folder so deep that its path is too long to be opened, by whomever."""
    folder.mkdir()
    place = os.open(folder, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=place)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    os.close(place)
    return folder
