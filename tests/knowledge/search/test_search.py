"""What a question finds, and where it says that it stands."""

from typing import Any

from penstock_apps.knowledge.search import EditionGroup, Query, Searcher
from penstock_apps.knowledge.store.tables import TablePool
from penstock_apps.knowledge.text import Piece
from tests.knowledge.search.shelf import Shelf

BREAD = "Let the dough rest for an hour before it is baked."
CATS = "Cats sleep through most of the day, and hunt at dawn."
SHIPS = "A ship drops its anchor where the bay is deep enough."


async def test_the_chunk_that_answers_comes_first(shelf: Shelf) -> None:
    source = await shelf.source()
    await shelf.add(source, "bread.md", BREAD)
    cats = await shelf.add(source, "cats.md", CATS)
    await shelf.add(source, "ships.md", SHIPS)

    hits = await shelf.ask("When do cats hunt?")

    assert hits[0].document == cats
    assert (hits[0].rank_vector, hits[0].rank_words) == (1, 1)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len(hits) == 3, "as many as asked for, if there are so many"


async def test_a_hit_says_where_it_stands(shelf: Shelf) -> None:
    source = await shelf.source()
    piece = Piece(text=CATS, tokens=12, heading="Animals › Cats", page=7)
    document = await shelf.add(source, "zoo.pdf", BREAD, piece)

    hit = (await shelf.ask("cats at dawn", k=1))[0]

    assert (hit.document, hit.path, hit.title) == (document, "zoo.pdf", "Zoo.Pdf")
    assert (hit.source, hit.edition, hit.base) == (source, shelf.edition, shelf.name)
    assert (hit.position, hit.page, hit.heading, hit.text) == (2, 7, "Animals › Cats", CATS)


async def test_the_words_of_the_question_are_marked(shelf: Shelf) -> None:
    await shelf.add(await shelf.source(), "cats.md", CATS)

    hit = (await shelf.ask("a hunting cat"))[0]

    assert hit.highlight is not None
    assert "**Cats** sleep" in hit.highlight
    assert "**hunt** at dawn" in hit.highlight


async def test_a_question_needs_no_answer_that_has_all_its_words(shelf: Shelf) -> None:
    await shelf.add(await shelf.source(), "cats.md", CATS, BREAD)

    hits = await shelf.ask("Which exotic animals, if any, hunt by moonlight?", mode="words")

    assert [hit.text for hit in hits] == [CATS]


async def test_a_word_in_a_heading_counts_more(shelf: Shelf) -> None:
    said = Piece(text="The anchor is heavy.", tokens=5, heading="Ropes")
    titled = Piece(text="It is heavy and made of iron.", tokens=8, heading="The anchor")
    await shelf.add(await shelf.source(), "ships.md", said, titled)

    hits = await shelf.ask("anchor", mode="words")

    assert [hit.heading for hit in hits] == ["The anchor", "Ropes"]


async def test_words_count_less_in_a_long_text(shelf: Shelf) -> None:
    source = await shelf.source()
    long = await shelf.add(source, "long.md", f"{BREAD} {SHIPS} {CATS} And much more is said here.")
    short = await shelf.add(source, "short.md", BREAD)

    hits = await shelf.ask("dough baked", mode="words")

    assert [hit.document for hit in hits] == [short, long]


async def test_a_rare_word_counts_more_than_common_ones(shelf: Shelf) -> None:
    many = [f"The ship number {number} lies in the bay." for number in range(30)]
    await shelf.add(await shelf.source(), "ships.md", *many, "The brigantine has two masts.")

    hits = await shelf.ask("ship in the bay brigantine", mode="words")

    assert hits[0].text == "The brigantine has two masts."


async def test_a_quoted_phrase_has_to_be_there(shelf: Shelf) -> None:
    await shelf.add(await shelf.source(), "a.md", "red wine and old cheese", "old wine, red cheese")

    for mode in ("hybrid", "words", "vector"):
        hits = await shelf.ask('"red cheese"', mode=mode)
        assert [hit.text for hit in hits] == ["old wine, red cheese"], mode


async def test_a_word_with_a_minus_must_not_be_there(shelf: Shelf) -> None:
    await shelf.add(await shelf.source(), "a.md", "red wine", "red cheese")

    hits = await shelf.ask("red -cheese")

    assert [hit.text for hit in hits] == ["red wine"]


async def test_a_text_in_several_documents_is_found_once(shelf: Shelf) -> None:
    source = await shelf.source()
    first = await shelf.add(source, "a.md", CATS)
    second = await shelf.add(source, "b.md", BREAD, CATS, CATS)

    hits = [hit for hit in await shelf.ask("cats") if hit.text == CATS]

    assert [(hit.document, hit.others) for hit in hits] == [(first, 1)]
    filtered = await shelf.ask("cats", k=1, documents=(second,))
    assert [(hit.document, hit.position, hit.others) for hit in filtered] == [(second, 2, 0)]


async def test_filters(shelf: Shelf) -> None:
    wiki, mail = await shelf.source(), await shelf.source()
    cats = await shelf.add(wiki, "cats.md", CATS, tags=["wiki", "animals"], team="a")
    bread = await shelf.add(wiki, "bread.md", BREAD, tags=["wiki"], lang="en", team="a")
    ships = await shelf.add(mail, "ships.md", SHIPS, lang="en", team="c")

    async def found(**filters: Any) -> set[int]:
        """By every way of asking the same documents."""
        ways = [
            {hit.document for hit in await shelf.ask("cats ship dough", mode=mode, **filters)}
            for mode in ("hybrid", "vector", "words")
        ]
        assert ways[0] == ways[1] == ways[2]
        return ways[0]

    assert await found() == {cats, bread, ships}
    assert await found(sources=(wiki,)) == {cats, bread}
    assert await found(documents=(cats, ships)) == {cats, ships}
    assert await found(documents=(cats, ships), sources=(wiki,)) == {cats}
    assert await found(tags=("animals", "nothing")) == {cats}
    assert await found(tags=("wiki",)) == {cats, bread}
    assert await found(metadata={"lang": "en"}) == {bread, ships}
    assert await found(metadata={"team": "a"}) == {cats, bread}
    assert await found(metadata={"team": "c", "lang": "en"}) == {ships}
    assert await found(metadata={"team": "b"}) == set()
    assert await found(sources=(wiki,), metadata={"lang": "en"}) == {bread}
    assert await found(sources=(0,)) == set()


async def test_what_is_deleted_is_not_found_before_it_is_removed(shelf: Shelf) -> None:
    source, other = await shelf.source(), await shelf.source()
    await shelf.add(source, "cats.md", CATS)
    bread = await shelf.add(other, "bread.md", BREAD)
    ships = await shelf.add(other, "ships.md", SHIPS)

    await shelf.mark_deleted("document", bread)
    await shelf.mark_deleted("source", source)

    assert {hit.document for hit in await shelf.ask("cats and dough")} == {ships}
    await shelf.mark_deleted("base", shelf.base)
    assert await shelf.ask("cats") == []


async def test_the_language_of_the_base_is_the_question_s(tables: TablePool) -> None:
    simple = await Shelf(tables, language="simple").build()
    german = await Shelf(tables, language="german").build()
    for shelf in (simple, german):
        await shelf.add(await shelf.source(), "a.md", "Die Schiffe liegen im Hafen.")

    assert len(await simple.ask("Schiffe", mode="words")) == 1
    assert await simple.ask("Schiff", mode="words") == []
    assert len(await german.ask("Schiff", mode="words")) == 1


async def test_editions_of_several_embedders_give_one_ranking(
    shelf: Shelf, tables: TablePool
) -> None:
    other = await Shelf(tables, language="simple").build()
    here = await shelf.add(await shelf.source(), "a.md", CATS, BREAD)
    there = await other.add(await other.source(), "b.md", CATS, SHIPS)

    hits = await shelf.ask("cats at dawn", k=3, beside=(other,))

    assert [(hit.document, hit.text) for hit in hits[:2]] == [(here, CATS), (there, CATS)]
    assert [hit.base for hit in hits[:2]] == [shelf.name, other.name]
    assert len(hits) == 3


async def test_words_alone_need_no_vector(shelf: Shelf, tables: TablePool) -> None:
    cats = await shelf.add(await shelf.source(), "a.md", CATS)

    async with tables.transaction("acme") as on:
        groups = [EditionGroup((shelf.edition,))]
        hits = await Searcher(tables).search(on, "acme", groups, Query("cats"))

    assert [(hit.document, hit.rank_vector, hit.rank_words) for hit in hits] == [(cats, None, 1)]


async def test_odd_questions_are_answered(shelf: Shelf) -> None:
    await shelf.add(
        await shelf.source(), "a.md", CATS, "C:\\temp & it's 'quoted'; DROP TABLE chunk"
    )

    for question in (
        "'",
        '"',
        "\\",
        "a & b | !c",
        ":*",
        "it's C:\\temp",
        "-cats",
        "the of",
        "🐈",
        "%_",
    ):
        for mode in ("hybrid", "words"):
            await shelf.ask(question, mode=mode)
    assert await shelf.ask("  ") == []
    assert len(await shelf.ask("drop table", mode="words")) == 1
