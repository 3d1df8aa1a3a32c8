"""`penstock ingest` and `penstock search`, as somebody types them."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from penstock_apps.knowledge.cli.files import FileSearch, FoundFile, hash_files
from penstock_apps.knowledge.ingest.intake import Incoming
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.sources import NewSource
from penstock_apps.knowledge.tasks import SMALL_QUEUE
from tests.cli.command import Commands
from tests.cli.test_examples import KNOWLEDGE, RUN
from tests.fixtures.database import Database, connected
from tests.fixtures.until import until
from tests.knowledge.cli.conftest import KEYS, said, said_with_help
from tests.knowledge.scene import Scene

FILES = Path(__file__).parents[1] / "files"


async def take_in(penstock: Commands, scene: Scene, *arguments: str) -> None:
    """Have files taken in, and bring them in here: a child process takes seconds to start."""
    said(penstock, "ingest", *arguments, "--no-wait")
    await scene.drain()


def test_files_go_in_once_and_are_found(penstock: Commands, handbook: Path) -> None:
    first = said(penstock, "ingest", "handbook")
    assert list(first) == [
        *("batch", "total", "completed", "failed", "skipped", "unchanged", "chunks", "embedded"),
        *("seconds", "errors"),
    ]
    assert (first["total"], first["completed"], first["chunks"], first["embedded"]) == (2, 2, 2, 2)

    [hit] = said(penstock, "search", "how do I replace a key?", "-k", "1")
    assert (hit["path"], hit["heading"], hit["page"]) == ("keys.md", "Keys", None)
    assert "revoke the first one" in hit["text"]

    # A file that is named itself is the same as in its folder; what changed goes in, alone.
    (handbook / "keys.md").write_text(KEYS + "\n# Doors\n\nDoors have no keys here.\n")
    again = said(penstock, "ingest", "handbook/keys.md", "handbook")
    assert (again["total"], again["completed"], again["unchanged"]) == (2, 1, 1)
    assert again["embedded"] < again["chunks"] or again["embedded"] == 1
    unchanged = said(penstock, "ingest", "handbook")
    assert (unchanged["batch"], unchanged["unchanged"], unchanged["completed"]) == (None, 2, 0)


async def test_what_fails_and_what_is_skipped_is_told(
    penstock: Commands, handbook: Path, scene: Scene
) -> None:
    (handbook / "plan.pdf").write_text("%PDF-1.4")
    (handbook / "empty.txt").write_text("")
    (handbook / "style.css").write_text("a { color: red }")
    ended = said(penstock, "ingest", "handbook", code=3)
    assert (ended["completed"], ended["failed"], ended["skipped"]) == (2, 1, 2)
    [error] = ended["errors"]
    assert error["path"] == "plan.pdf"
    assert "damaged" in error["reason"]

    # One that failed is tried again, and one that was skipped only if that is wanted.
    (handbook / "keys.md").unlink()
    asked = ("ingest", "handbook")
    shown = await said_with_help(penstock, scene, *asked, code=3, as_json=False)
    assert "4 files: 1 unchanged, 2 skipped, 1 failed." in shown
    assert "plan.pdf: The file is damaged" in shown
    assert "style.css" not in shown
    again = await said_with_help(penstock, scene, *asked, "--again", code=3, as_json=False)
    assert "style.css" in again


def test_folders_of_tools_are_skipped_unless_named(tmp_path: Path) -> None:
    for name in ("src/__pycache__", "node_modules/left-pad", ".git"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "readme.md").write_text("# Nobody's\n")
    (tmp_path / "src" / "notes.md").write_text("# Somebody's\n")
    [found] = FileSearch([tmp_path]).folders.values()
    assert list(found) == ["src/notes.md"]
    [named] = FileSearch([tmp_path / "node_modules"]).folders.values()
    assert list(named) == ["left-pad/readme.md"]


def test_an_empty_question_is_refused(penstock: Commands) -> None:
    for question in ("", " \n"):
        told = said(penstock, "search", question, code=2)["error"]
        assert told["kind"] == "usage"
        assert "QUESTION" in told["message"]
        assert "it is empty" in told["message"]


@pytest.mark.usefixtures("handbook")
async def test_tenants_and_bases_are_apart(penstock: Commands, scene: Scene) -> None:
    acme = ("--tenant", "acme")
    said(penstock, "ingest", "handbook/keys.md", *acme, "--base", "security", "--no-wait")
    await take_in(penstock, scene, "handbook/office", *acme, "--tag", "office")

    assert said(penstock, "search", "keys") == []
    hits = said(penstock, "search", "keys trains", "--tenant", "acme")
    places = {(hit["base"], hit["path"]) for hit in hits}
    assert places == {("security", "keys.md"), ("default", "travel.md")}
    for option, path in ((("--base", "security"), "keys.md"), (("--tag", "office"), "travel.md")):
        found = said(penstock, "search", "keys and trains", "--tenant", "acme", *option)
        assert [hit["path"] for hit in found] == [path]
    # People are told the base where there are several.
    shown = penstock.run("search", "keys", "--tenant", "acme").stdout
    assert "security: keys.md" in shown
    shown = penstock.run("search", "keys", "--tenant", "acme", "--base", "security").stdout
    assert "1. keys.md" in shown


def test_others_may_do_the_work_or_the_next_run(penstock: Commands, handbook: Path) -> None:
    left = said(penstock, "ingest", "handbook", "--no-wait")
    assert (left["total"], left["completed"], left["pending"]) == (2, 0, 2)
    # What is on its way is not added again.
    again = said(penstock, "ingest", "handbook", "--no-wait")
    assert (again["batch"], again["pending"]) == (None, 2)
    # It is brought in by whoever waits for it.
    ended = said(penstock, "ingest", "handbook")
    assert (ended["batch"], ended["completed"], ended["unchanged"]) == (None, 2, 0)
    assert ended["chunks"] == 2


def test_what_is_not_there_or_has_no_name_is_told(penstock: Commands, tmp_path: Path) -> None:
    Path(f"{tmp_path}/odd\udcff").mkdir()
    long = "long" * 70
    told = {
        ("ingest", "nowhere"): "There is no file or folder nowhere.",
        ("ingest", "/dev/null"): "/dev/null is neither a file nor a folder.",
        ("ingest", long): f"{long} cannot be accessed: File name too long.",
        ("ingest", "odd\udcff"): (
            "The name of the folder …/odd\\xff has characters that cannot be displayed. "
            "Rename the folder."
        ),
        ("search", "keys", "--base", "research"): (
            "There is no knowledge base 'research'. None exists yet: `penstock ingest` makes one."
        ),
    }
    for arguments, message in told.items():
        ended = penstock.run(*arguments)
        assert ended.returncode != 0
        assert ended.stderr.strip().replace(str(tmp_path), "…") == message


def test_names_of_bases_and_tags_are_text(penstock: Commands, handbook: Path) -> None:
    for option, given in (("--base", ""), ("--tag", "\udcff"), ("--tenant", "a\nb")):
        ended = penstock.run("ingest", "handbook", option, given)
        assert ended.returncode == 2
        assert "is not a name; a name has 1 to 200 printable characters" in ended.stderr


async def test_a_database_without_the_tables_says_how_to_have_them(
    tmp_path: Path, database: Database, handbook: Path
) -> None:
    penstock = Commands(tmp_path, database.url)
    ended = penstock.run("ingest", "handbook")
    assert ended.returncode == 1
    assert "`penstock migrate --with knowledge` brings them up to date" in ended.stderr

    ended = penstock.run("migrate", "--with", "knowledge")
    assert ended.returncode == 1
    assert "Vectors need the extension pgvector 0.8 or newer" in ended.stderr

    async with connected(database.admin_url) as admin:
        await admin.execute("CREATE EXTENSION vector")
    assert said(penstock, "migrate", "--with", "knowledge")["changed"][0] == "0001_knowledge"
    assert said(penstock, "migrate")["changed"] == []
    assert said(penstock, "search", "keys") == []
    unknown = penstock.run("migrate", "--with", "wisdom")
    assert (
        "The application 'wisdom' is not installed. Installed applications: knowledge."
        in unknown.stderr
    )
    penstock.close()


async def test_the_same_command_goes_on_after_ctrl_c(
    penstock: Commands, handbook: Path, scene: Scene
) -> None:
    await scene.app.pause(SMALL_QUEUE)
    run = penstock.start("ingest", "handbook", "--json")
    waiting = "SELECT count(*) = 2 FROM k.document WHERE state = 'pending'"
    await until(lambda: scene.value(waiting), what="the documents to be written down")
    run.send(signal.SIGINT)
    assert await asyncio.to_thread(run.end, 90) == 130
    assert json.loads(run.output)["error"]["kind"] == "interrupted"
    assert "Run the same command again to continue with the rest" in run.log

    await scene.app.resume(SMALL_QUEUE)
    ended = said(penstock, "ingest", "handbook")
    assert (ended["completed"], ended["failed"], ended["total"]) == (2, 0, 2)


async def test_a_file_that_cannot_be_taken_in_stops_no_other(
    penstock: Commands, handbook: Path, scene: Scene
) -> None:
    (handbook / "odd\udcff.md").write_text("# Odd\n\nA name of another encoding.\n")
    (handbook / "dangling.md").symlink_to("nowhere.md")
    (handbook / "self.md").symlink_to("self.md")
    (handbook / "loop").symlink_to(".", target_is_directory=True)
    # Nobody can read this from its beginning, not even root.
    (handbook / "unreadable.md").symlink_to("/proc/self/mem")
    (handbook / "100% [bold]ünïcode[b] $(x) 'q'.md").write_text("# Odd\n\nYet a name.\n")
    # As macOS and phones name them: with narrow spaces and joined emoji.
    (handbook / "at 1.00\u202fPM \U0001f469\u200d\U0001f4bb.md").write_text("# At\n\nOne.\n")
    (handbook / "\x1b[31mred.md").write_text("# Red\n\nIt would colour a terminal.\n")
    far = handbook.joinpath(*["d" * 240] * 9)
    far.mkdir(parents=True)
    (far / "far.md").write_text("# Far\n\nAway.\n")
    ended = await said_with_help(
        penstock,
        scene,
        *("ingest", "--follow-links", "handbook", "handbook/", "handbook/../handbook/keys.md"),
        code=3,
    )
    assert (ended["total"], ended["completed"], ended["failed"]) == (8, 4, 4)
    errors = {each["path"][-20:]: each["reason"] for each in ended["errors"]}
    far_path = "d" * 13 + "/far.md"
    assert errors.keys() == {"odd\\xff.md", "\\x1b[31mred.md", "unreadable.md", far_path}
    assert "more than 2,000 bytes" in errors[far_path]
    assert "Rename it." in errors["odd\\xff.md"]
    assert errors["unreadable.md"] == "It cannot be read: Input/output error."
    penstock.run("search", "\udcff\udcfe")  # no words, and no surprise


@pytest.fixture
def linked(tmp_path: Path, handbook: Path) -> Path:
    """The handbook with links in it, three of which lead out of it."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "salaries.md").write_text("# Salaries\n\nNobody's business.\n")
    (tmp_path / "private" / "back").symlink_to(tmp_path / "private", target_is_directory=True)
    (tmp_path / "secret.md").write_text("# Secret\n\nNobody's business.\n")
    (handbook / "alias.md").symlink_to("office/travel.md")
    (handbook / "branch").symlink_to("office", target_is_directory=True)
    (handbook / "secret.md").symlink_to("../secret.md")
    (handbook / "office" / "up").symlink_to(tmp_path, target_is_directory=True)
    (handbook / "people").symlink_to(tmp_path / "private", target_is_directory=True)
    return handbook


def test_links_do_not_leave_the_folder_unless_asked(tmp_path: Path, linked: Path) -> None:
    finding = FileSearch([linked])
    [found] = finding.folders.values()
    assert sorted(found) == ["alias.md", "keys.md", "office/travel.md"]
    assert sorted(finding.outside_links) == [
        *(str(linked / name) for name in ("office/up", "people", "secret.md"))
    ]
    assert not finding.problems

    followed = FileSearch([linked], follow_links=True)
    [found] = followed.folders.values()
    assert sorted(found) == [
        *("alias.md", "keys.md", "office/travel.md", "people/salaries.md", "secret.md")
    ]
    assert not followed.outside_links

    # A link that is named is meant, and so is the folder that it leads to.
    (tmp_path / "named").symlink_to(linked, target_is_directory=True)
    [file, folder] = FileSearch([linked / "secret.md", tmp_path / "named"]).folders.values()
    assert list(file) == ["secret.md"]
    assert sorted(folder) == ["alias.md", "keys.md", "office/travel.md"]


def test_links_that_were_left_out_are_told(penstock: Commands, linked: Path) -> None:
    asked = ("ingest", "handbook", "--no-wait")
    assert said(penstock, *asked)["leading_out"] == 3
    shown = penstock.run(*asked)
    assert shown.returncode == 0
    assert "3 links lead out of the folder: --follow-links includes their files." in shown.stdout
    assert "leading_out" not in said(penstock, *asked, "--follow-links")


async def test_a_file_that_changes_while_it_is_read_is_left_out(
    library: Library, tmp_path: Path
) -> None:
    changing, steady = tmp_path / "changing.md", tmp_path / "steady.md"
    changing.write_text("before")
    steady.write_text("as ever")
    seen, troubles = hash_files([FoundFile(each.name, each) for each in (changing, steady)])
    assert not troubles
    changing.write_text("after it")
    base = await library.make_base("notes")
    async with library.intake(base, NewSource("files", "notes")) as intake:
        wanted = await intake.add([Incoming(*each) for each in seen])
    assert [each.path for each in wanted] == ["steady.md"]
    assert [each.path for each in intake.changed] == ["changing.md"]


@pytest.mark.usefixtures("handbook")
async def test_tags_that_are_new_are_put_on_what_is_there(penstock: Commands, scene: Scene) -> None:
    await take_in(penstock, scene, "handbook")
    tagged = await said_with_help(penstock, scene, "ingest", "handbook", "--tag", "office")
    assert (tagged["completed"], tagged["embedded"]) == (2, 0)
    assert len(said(penstock, "search", "keys", "--tag", "office")) == 2
    assert said(penstock, "ingest", "handbook", "--tag", "office")["unchanged"] == 2


async def test_a_tag_is_on_the_files_it_came_with(
    penstock: Commands, handbook: Path, scene: Scene
) -> None:
    await take_in(penstock, scene, "handbook")
    (handbook / "doors.md").write_text("# Doors\n\nA door has a lock for keys.\n")
    await take_in(penstock, scene, "handbook/doors.md", "--tag", "doors")
    (handbook / "keys.md").write_text("# Keys\n\nKeys are cut anew.\n")
    await take_in(penstock, scene, "handbook")
    [cut] = said(penstock, "search", "cut anew", "-k", "1")
    assert cut["path"] == "keys.md"
    [hit] = said(penstock, "search", "keys", "--tag", "doors")
    assert hit["path"] == "doors.md"


@pytest.mark.usefixtures("handbook")
async def test_the_examples_work(penstock: Commands, scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Vacuum\n\nVacuum gives space back.\n")
    (tmp_path / "manual.pdf").write_bytes((FILES / "manual.pdf").read_bytes())
    said(penstock, "ingest", "notes.md", "--base", "manuals", "--no-wait")
    await take_in(penstock, scene, "handbook")
    # In their order: what one of them takes in, another one deletes.
    for line in sorted(line for line in RUN if line in KNOWLEDGE):
        done = penstock.shell(line)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
