"""A vault to measure with: links by a power law, eight a note, 1.5 KB each, with lists, headings and some code."""

import random
from pathlib import Path

LINKS = 8
SIZE = 1500
WORDS = [
    "garden",
    "harvest",
    "winter",
    "budget",
    "meeting",
    "plan",
    "kernel",
    "thread",
    "queue",
    "river",
    "stone",
    "paper",
    "method",
    "theory",
    "sample",
    "result",
    "travel",
    "ticket",
    "station",
    "museum",
    "recipe",
    "flour",
    "butter",
    "onion",
    "melody",
    "rhythm",
    "chord",
    "strategy",
    "market",
    "price",
    "volume",
    "server",
    "client",
    "socket",
    "packet",
    "router",
    "switch",
    "memory",
    "cache",
    "index",
    "vector",
    "matrix",
    "tensor",
    "proof",
    "lemma",
    "axiom",
    "history",
    "empire",
    "treaty",
    "border",
    "language",
    "grammar",
    "verb",
    "noun",
    "tense",
    "village",
    "harbour",
    "island",
    "forest",
    "meadow",
    "valley",
    "glacier",
    "orbit",
    "comet",
]
TAGS = [f"topic/{word}" if number % 3 else word for number, word in enumerate(WORDS)]


def note_id(number: int) -> str:
    return f"area-{number % 97:02}/{WORDS[number % len(WORDS)]}-{number}.md"


def make_vault(folder: Path, count: int, seed: int = 7) -> None:
    """The same vault for the same arguments; one that is there already is left as it is."""
    if (folder / note_id(count - 1)).exists():
        return
    choose = random.Random(seed)
    for each in {Path(note_id(number)).parent for number in range(min(count, 97))}:
        (folder / each).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / note_id(number)).write_text(_note(number, count, choose), encoding="utf-8")


def _note(number: int, count: int, choose: random.Random) -> str:
    tags = choose.sample(TAGS, choose.randint(1, 4))
    lines = ["---", f"title: {WORDS[number % len(WORDS)].title()} {number}", "tags:", *(f"  - {tag}" for tag in tags)]
    lines += [f"created: 20{choose.randint(10, 25)}-{choose.randint(1, 12):02}-{choose.randint(1, 28):02}", "---", ""]
    links = [_link(int(count * choose.random() ** 3), choose) for _ in range(LINKS)]
    length = 0
    while length < SIZE - 150 or links:
        line = _line(choose, links)
        length += len(line) + 1
        lines.append(line)
        if choose.random() < 0.3:
            lines.append("")
    if choose.random() < 0.2:
        lines += ["", "```python", "print('[[not a link]]')", "```"]
    return "\n".join(lines) + "\n"


def _link(number: int, choose: random.Random) -> str:
    name = note_id(number).removesuffix(".md")
    style = choose.random()
    if style < 0.6:
        return f"[[{name.rpartition('/')[2]}]]"
    if style < 0.8:
        return f"[[{name}|see there]]"
    return f"[more](../{name}.md)" if style < 0.9 else f"[[{WORDS[number % len(WORDS)].title()} {number}]]"


def _line(choose: random.Random, links: list[str]) -> str:
    words = [choose.choice(WORDS) for _ in range(choose.randint(8, 18))]
    if links and choose.random() < 0.6:
        words.insert(choose.randrange(len(words)), links.pop())
    if choose.random() < 0.1:
        words.append(f"#{choose.choice(TAGS)}")
    if choose.random() < 0.1:
        words.append("`code`")
    start = choose.random()
    return ("## " if start < 0.08 else "- " if start < 0.3 else "") + " ".join(words)
