"""`penstock knowledge`: what there is, what failed, what is to go."""

from pathlib import Path
from typing import Any

import pytest

from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.documents import Labels
from penstock_apps.knowledge.store.sources import NewSource
from tests.cli.command import Commands
from tests.cli.terminal import Terminal
from tests.fixtures.database import Database
from tests.knowledge.cli.conftest import KEYS, TRAVEL, said, said_with_help
from tests.knowledge.scene import Scene

ACME = ("--tenant", "acme")
BROKEN = "The file is damaged"


@pytest.fixture
async def shelved(scene: Scene, library: Library, handbook: Path) -> None:
    """Two bases of acme: a folder of which one file failed, and an upload on its way."""
    folder = NewSource("files", "handbook", str(handbook))
    contents = {"keys.md": KEYS, "office/travel.md": TRAVEL, "plan.pdf": b"%PDF-1.4"}
    await scene.bring(library, contents, base="default", source=folder, labels=Labels(("office",)))
    await scene.add(library, {"keys.md": KEYS}, base="research", source=NewSource("files", "up"))


@pytest.mark.usefixtures("shelved")
async def test_bases_sources_and_documents_are_listed(penstock: Commands) -> None:
    default, research = listed(penstock, "bases")
    assert (default["name"], default["documents"], default["chunks"]) == ("default", 3, 2)
    assert (default["state"], default["completed"], default["failed"]) == ("partial", 2, 1)
    assert (research["state"], research["pending"], research["chunks"]) == ("processing", 1, 0)
    assert listed(penstock, "bases", "--base", research["id"]) == [research]

    upload, folder = listed(penstock, "sources")
    assert (upload["state"], upload["base"]) == ("processing", research["id"])
    assert (folder["state"], folder["documents"], folder["failed"]) == ("partial", 3, 1)
    assert folder["name"] == "handbook"
    assert folder["batch"] is not None
    assert listed(penstock, "sources", "--state", "partial") == [folder]
    assert listed(penstock, "sources", "--base", "research") == [upload]

    [plan] = listed(penstock, "documents", "--state", "failed")
    assert (plan["path"], plan["reason"], plan["chunks"]) == ("plan.pdf", "broken", 0)
    assert plan["error"].startswith(BROKEN)
    # A folder is known by where it is, from wherever it is named.
    first = said(
        penstock, "knowledge", "documents", *ACME, "--source", "./handbook", "--limit", "2"
    )
    rest = listed(penstock, "documents", "--source", folder["id"], "--after", first["after"])
    paths = {each["path"] for each in [*first["documents"], *rest]}
    assert paths == {"keys.md", "office/travel.md", "plan.pdf"}
    assert {each["source"] for each in rest} == {folder["id"]}
    assert [each["tags"] for each in [*first["documents"], *rest]] == [["office"]] * 3
    assert said(penstock, "knowledge", "documents") == {"documents": [], "after": None}


@pytest.mark.usefixtures("shelved")
async def test_lists_are_tables_for_people(penstock: Commands, handbook: Path) -> None:
    bases = penstock.run("knowledge", "bases", *ACME).stdout.splitlines()
    assert bases[0].split() == [
        *("id", "state", "documents", "chunks", "to", "come", "failed", "model", "name")
    ]
    assert bases[1].split()[1:] == ["partial", "3", "2", "0", "1", "wordllama", "default"]
    sources = penstock.run("knowledge", "sources", *ACME, "--limit", "1", "--base", "default")
    assert sources.stdout.splitlines()[1].split()[-1] == str(handbook)
    assert "There may be more: --after" in sources.stderr
    documents = penstock.run("knowledge", "documents", *ACME, "--state", "failed").stdout
    assert f"plan.pdf  broken: {BROKEN}" in documents
    assert "`penstock ingest` makes one" in penstock.run("knowledge", "bases").stdout


@pytest.mark.usefixtures("shelved")
async def test_what_failed_is_tried_again_and_nothing_else(
    penstock: Commands, scene: Scene
) -> None:
    retry = ("knowledge", "retry", "handbook", *ACME)
    again = await said_with_help(penstock, scene, *retry, code=3)
    assert (again["total"], again["completed"], again["failed"]) == (1, 0, 1)
    [error] = again["errors"]
    assert error["path"] == "plan.pdf"
    left = said(penstock, *retry, "--no-wait")
    assert (left["total"], left["pending"], left["errors"]) == (1, 1, [])
    # It is on its way now, and the same command brings it in.
    again = said(penstock, *retry, code=3)
    assert (again["batch"], again["total"], again["failed"]) == (None, 1, 1)
    said(penstock, "knowledge", "delete", "document", "plan.pdf", *ACME, "--yes")
    nothing = penstock.run(*retry)
    assert (nothing.returncode, nothing.stdout) == (0, "No documents: nothing to do.\n")


@pytest.mark.usefixtures("shelved")
async def test_deleted_documents_and_bases_vanish_at_once(penstock: Commands, scene: Scene) -> None:
    delete = ("knowledge", "delete")
    refused = penstock.run(*delete, "document", "plan.pdf", *ACME)
    assert refused.returncode == 1
    assert "(plan.pdf) will be deleted." in refused.stderr
    assert "Use --yes to confirm in advance" in refused.stderr
    deleted = said(penstock, *delete, "document", "plan.pdf", *ACME, "--yes")
    assert (deleted["what"], deleted["name"], deleted["documents"]) == ("document", "plan.pdf", 1)
    assert listed(penstock, "documents", "--state", "failed") == []

    with Terminal(penstock, *delete, "base", "research", *ACME) as terminal:
        terminal.wait_for("The knowledge base 'research', with 1 document, will be deleted.")
        terminal.press("y\n")
        terminal.wait_for("removes its data")
        assert terminal.end() == 0
    assert [each["name"] for each in listed(penstock, "bases")] == ["default"]

    said(penstock, "ingest", "handbook/keys.md", *ACME)
    paths = {row["path"] for row in await scene.rows("SELECT path FROM k.document")}
    assert paths == {"keys.md", "office/travel.md"}
    assert await scene.value("SELECT count(*) FROM k.base") == 1
    said(penstock, *delete, "source", "handbook", *ACME, "--yes")
    assert listed(penstock, "sources") == []


@pytest.mark.usefixtures("shelved")
async def test_a_base_without_editions_can_be_deleted(penstock: Commands, scene: Scene) -> None:
    await scene.rows(
        "DELETE FROM k.edition AS e USING k.base AS b WHERE b.id = e.base AND b.name = 'research'"
    )
    assert [each["name"] for each in listed(penstock, "bases")] == ["default"]
    delete = ("knowledge", "delete", "base", "research", *ACME, "--yes")
    assert said(penstock, *delete)["name"] == "research"


@pytest.mark.usefixtures("shelved")
async def test_unknown_or_ambiguous_name_lists_the_candidates(penstock: Commands) -> None:
    told = {
        ("sources", "--base", "reserch"): "'reserch'. Existing ones: default, research.",
        ("documents", "--source", "99"): "no source '99'. Existing ones: 2 (up), 1 (/",
        ("retry", "hanbook"): "no source 'hanbook'. Existing ones: 2 (up), 1 (/",
        ("delete", "document", "9" * 30): "Existing ones: 4 (keys.md), ",
        ("delete", "source", "up", "--base", "default"): "Existing ones: 1 (/",
    }
    for arguments, message in told.items():
        ended = penstock.run("knowledge", *arguments, *ACME, "--json")
        assert ended.returncode == 3
        assert message in ended.stderr
        assert '"kind":"not_found"' in ended.stdout
    both = penstock.run("knowledge", "delete", "document", "keys.md", *ACME, "--yes")
    assert both.returncode == 1
    assert "'keys.md' is ambiguous: it matches 2 documents: 4 (of source 2), " in both.stderr
    assert "Pass the id of one." in both.stderr
    assert penstock.run("knowledge", "sources", "--after", "x").returncode == 2
    none = penstock.run("knowledge", "retry", "handbook")
    assert "None exists yet: `penstock ingest` makes one" in none.stderr


def test_where_there_is_no_knowledge_it_is_said_how_to_have_it(
    tmp_path: Path, database: Database
) -> None:
    penstock = Commands(tmp_path, database.url)
    ended = penstock.run("knowledge", "bases")
    assert ended.returncode == 1
    assert "`penstock migrate --with knowledge` brings them up to date" in ended.stderr
    penstock.close()

    # Nothing is made for a look.
    nowhere = Commands(tmp_path, None)
    assert "No database is named" in nowhere.run("knowledge", "bases").stderr
    assert "No database is named" in nowhere.run("search", "keys").stderr
    assert not (tmp_path / ".penstock").exists()
    nowhere.close()


def listed(penstock: Commands, what: str, *arguments: str) -> list[dict[str, Any]]:
    """What a list of acme's has."""
    found: list[dict[str, Any]] = said(penstock, "knowledge", what, *ACME, *arguments)[what]
    return found
