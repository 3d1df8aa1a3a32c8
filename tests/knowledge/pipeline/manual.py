"""A manual, and its next release: a seeded script edits a few of its paragraphs."""

from random import Random

WORDS = [
    "water",
    "gate",
    "valve",
    "sluice",
    "turbine",
    "pressure",
    "flow",
    "level",
    "pump",
    "pipe",
    "lock",
    "basin",
    "weir",
]
CHAPTERS = 12
PARAGRAPHS = 8


def manual(seed: int = 1) -> str:
    random = Random(seed)
    parts = []
    for chapter in range(CHAPTERS):
        parts.append(f"# Chapter {random.choice(WORDS)} {chapter}")
        parts += [_paragraph(random) for _ in range(PARAGRAPHS)]
    return "\n\n".join(parts)


def edited(text: str, edits: int = 3, seed: int = 2) -> str:
    """The text with a word more in some of its paragraphs."""
    random = Random(seed)
    parts = text.split("\n\n")
    places = [place for place, part in enumerate(parts) if not part.startswith("#")]
    for place in random.sample(places, edits):
        parts[place] += f" Mind the {random.choice(WORDS)}."
    return "\n\n".join(parts)


def _paragraph(random: Random) -> str:
    sentences = [" ".join(random.choices(WORDS, k=5)) for _ in range(3)]
    return f"Rule {random.randrange(10**6)}. " + " ".join(f"The {each}." for each in sentences)
