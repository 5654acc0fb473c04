"""Notes whose heads are written in every way that YAML and people know."""

from random import Random

TAGS = [
    "a",
    "b",
    "one",
    "two words",
    "#hash",
    "007",
    "1.0",
    "2024-01-15",
    "nested/tag",
    "Ü",
    "日本語",
    "yes",
    "it's",
    "x-y",
    "~",
]
VALUES = [
    "title: Some note",
    "title: 'It''s a note'",
    'title: "a: b # c"',
    "title: 2024-01-15",
    "title: >-\n  folded\n  title",
    "number: 007",
    "version: 3.10",
    "date: 2024-01-15T10:00:00Z",
    "date: !!str 2024-01-15",
    "# just a comment",
    "",
    "key:   value   # with a comment",
    "empty:",
    "nothing: ~",
    "flag: yes",
    "base: &anchor [p, q]",
    "copy: *anchor",
    "map: {a: 1, b: [2, 3]}",
    "nested:\n  deep:\n    - x\n    - y: z",
    "text: |\n  # not a comment\n  tags: [not, these]\n  ---x",
    "long: >\n  folded text\n\n  goes on",
    "aliases: [One, Two words]",
    "alias: Another",
    "tags_of_others: [k]",
    "? complex\n: value",
    "tags: &own [v, w]\nsame: *own",
    "tags: &own\n  - v\nsame: *own",
    '"quoted key": 1',
    "emoji: 🎉",
    "tab:\tvalue",
]
BODIES = [
    "",
    "Text.\n",
    "No final newline",
    "\n\nBlank lines first.\n\n\n",
    "A rule\n\n---\n\nand more\n---\n",
    "---\nright at the start\n---\n",
    "#inline and [[link]]\n\n```\n---\ntags: [code]\n---\n```\n",
    "  indented\ttabs \n",
    "\u2028line separator\u0085next line\x0cform feed\n",
]


def quoted(random: Random, tag: str, *, in_list: bool) -> str:
    style = random.choice(["", "", "'", '"'])
    if style == "'":
        return "'" + tag.replace("'", "''") + "'"
    if style == '"' or tag[0] in "#~" or (in_list and "'" in tag):
        return f'"{tag}"'
    return tag


def tags_entry(random: Random) -> str:
    """Some way of writing some tags, or none."""
    key = random.choice(["tags", "tags", "tags", "tag", '"tags"', "'tag'", "tags "])
    tags = random.sample(TAGS, random.choice([0, 1, 1, 2, 3, 5]))
    end = random.choice(["", "", "", "  # why", "   "])
    in_list = [quoted(random, tag, in_list=True) for tag in tags]
    on_lines = [quoted(random, tag, in_list=False) for tag in tags]
    words = [tag for tag in tags if " " not in tag and tag not in ("#hash", "~")] or ["word"]
    dash = random.choice(["- ", "  - ", "    - ", "-   "])
    between = random.choice([", ", ",", " , ", ",  ", ",\n  ", ", # comment\n    "])
    match random.randrange(12):
        case 0 | 1:
            return f"{key}: [{between.join(in_list)}]{end}"
        case 2:
            return f"{key}: [ {between.join(in_list)} ]{end}"
        case 3:
            return f"{key}:\n  [\n    {between.join(in_list)},\n  ]{end}" if tags else f"{key}: [\n  ]{end}"
        case 4 | 5 if tags:
            return f"{key}:{end}\n" + "\n".join(f"{dash}{each}" for each in on_lines)
        case 6 if tags:
            lines = [f"{dash}{each}{random.choice(['', '  # ' + str(n), ' '])}" for n, each in enumerate(on_lines)]
            return f"{key}:\n" + random.choice(["\n", "\n\n", "\n# between\n"]).join(lines)
        case 7:
            return f"{key}: {random.choice([', ', ' ', ',', '  ']).join(words)}{end}"
        case 8:
            text = random.choice([", ", " "]).join(words).replace("'", "''")
            return f"{key}: '{text}'{end}"
        case 9:
            return (
                f"{key}: {random.choice(['', '~', 'null', '[]', '{}', '&t [p, q]', '!!seq [r]', '>-', '|', '42'])}{end}"
            )
        case 10:
            return f"{key}: {random.choice(['>-', '|', '>'])}\n  " + "\n  ".join(words)
        case _:
            return f"anchored: &x [m, n]\n{key}: *x{end}"


def head(random: Random) -> str:
    """Frontmatter with its fences; also broken, empty or none."""
    kind = random.randrange(14)
    if kind == 0:
        return ""
    if kind == 1:
        return random.choice(["---\n---\n", "---\n\n---\n", "---\n# nothing\n---\n", "---\n{}\n---\n"])
    if kind == 2:
        return random.choice(
            ["---\n{title: x, tags: [y, z]}\n---\n", "---\n{title: x}\n---\n", "---\n{ tags: y }\n---\n"]
        )
    entries = random.sample(VALUES, random.randrange(6))
    if "copy: *anchor" in entries and "base: &anchor [p, q]" not in entries[: entries.index("copy: *anchor")]:
        entries.remove("copy: *anchor")
    if random.random() < 0.9:
        entries.insert(random.randint(0, len(entries)), tags_entry(random))
        if random.random() < 0.1:
            entries.insert(random.randint(0, len(entries)), tags_entry(random))  # twice: the last one counts
    fences = random.choice([("---", "---"), ("---", "---"), ("---", "..."), ("---  ", "--- ")])
    return "\n".join([fences[0], *entries, fences[1], ""])


def note(random: Random) -> bytes:
    text = head(random) + random.choice(BODIES)
    if random.random() < 0.3:
        text = text.replace("\n", "\r\n")
    if random.random() < 0.2:
        text = "\ufeff" + text
    content = text.encode()
    if random.random() < 0.03:
        content += b"\xff\xfe not UTF-8"
    return content


def other_tags(random: Random) -> list[str]:
    return random.sample([tag for tag in TAGS if not tag.startswith("#")], random.choice([0, 1, 1, 2, 4]))
