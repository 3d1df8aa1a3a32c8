"""A manual that looks like one, and what an editor does to it; the same for the same seed."""

from random import Random

VOCABULARY = (
    "the a of to in is it for on with as by at from or an be this that are was can will its "
    "server table index query row column value key transaction lock buffer cache disk memory "
    "process signal thread worker queue job lease token schema role grant policy tenant backup "
    "restore replica primary slot stream offset segment page vacuum freeze analyse planner cost "
    "estimate join hash merge sort scan filter parallel partition trigger function view sequence "
    "large small fast slow new old first last next other same open closed empty full early late "
    "reads writes waits holds returns begins ends grows shrinks fails starts stops moves keeps"
)
WORDS = VOCABULARY.split()


def manual(random: Random, chapters: int = 12) -> list[str]:
    """The blocks of a manual in Markdown, to be joined by empty lines."""
    blocks: list[str] = []
    for chapter in range(1, chapters + 1):
        blocks.append(f"# {chapter}. {_title(random)}")
        for number in range(1, random.randint(2, 6)):
            blocks.append(f"## {chapter}.{number}. {_title(random)}")
            for _ in range(random.randint(1, 9)):
                blocks.append(_block(random))
    return blocks


def edit(random: Random, blocks: list[str]) -> list[str]:
    """The blocks after one edit of a paragraph, a list or a table; its neighbours keep their sense,
    which they would not if a heading or the mark of code went away.
    """
    edited = list(blocks)
    at = random.choice([at for at, block in enumerate(blocks) if block[0] not in "#`"])
    match random.choice(["word", "sentence", "insert", "delete", "rewrite"]):
        case "word":
            words = edited[at].split(" ")
            words[random.randrange(len(words))] = "altered"
            edited[at] = " ".join(words)
        case "sentence":
            edited[at] += f" {sentence(random)}"
        case "insert":
            edited.insert(at, paragraph(random))
        case "delete":
            del edited[at]
        case _:
            edited[at] = paragraph(random)
    return edited


def paragraph(random: Random) -> str:
    return " ".join(sentence(random) for _ in range(random.randint(1, 8)))


def sentence(random: Random) -> str:
    words = random.choices(WORDS, k=random.randint(4, 22))
    return f"{' '.join(words).capitalize()}."


def _title(random: Random) -> str:
    return " ".join(random.choices(WORDS, k=random.randint(1, 4))).capitalize()


def _block(random: Random) -> str:
    kind = random.random()
    if kind < 0.1:
        lines = (f"    {' '.join(random.choices(WORDS, k=3))}(1)" for _ in range(8))
        return "\n".join(("```python", *lines, "```"))
    if kind < 0.2:
        return "\n".join(f"- {sentence(random)}" for _ in range(random.randint(2, 7)))
    if kind < 0.25:
        rows = (f"| {random.choice(WORDS)} | {sentence(random)} |" for _ in range(6))
        return "\n".join(("| name | meaning |", "|---|---|", *rows))
    return paragraph(random)
