"""Questions whose answers are known, made from what is installed; nothing is downloaded.

Each set takes apart what belongs together: a function and the first line of its docstring, a section and its heading, a
manual page and its line in the list of all pages, a lint rule's message and why it is there. One part is asked for, the
other is to be found. The same installation gives the same sets.
"""

from __future__ import annotations

import ast
import gzip
import json
import random
import re
import subprocess
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.metadata import distributions
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from carrel.search.analysis import query_terms, terms
from carrel.search.documents import Document, Passage, split

SEED = 4
MOST_DOCUMENTS = 2500
MOST_QUERIES = 800
LONGEST = 1200
"""Characters of a document that are kept: the engine's speed is measured elsewhere."""

LARGEST_SOURCE = 300_000

MANUAL = Path("/usr/share/man")
MANUAL_SECTIONS = ("1", "2", "3", "5", "7", "8")
MOST_OF_A_FAMILY = 40
"""Manual pages whose names begin alike: some programs have thousands."""


class Text(NamedTuple):
    id: str
    title: str
    text: str
    asked: str = ""
    """What it answers; empty for one that is only in the way."""


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Documents, questions, and which documents answer each of them, and how well."""

    name: str
    documents: list[Document]
    queries: dict[str, str]
    relevant: dict[str, dict[str, int]]

    @property
    def digest(self) -> str:
        """Of the documents."""
        text = "\0".join(f"{each.id}\0{each.version}" for each in self.documents)
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def is_held_out(query_id: str) -> bool:
    """Half of the questions choose constants, the others are reported."""
    return blake2b(query_id.encode("utf-8", "surrogatepass"), digest_size=1).digest()[0] % 2 == 1


def document(id: str, title: str, text: str) -> Document:
    """As a note would be put in."""
    version = blake2b(f"{title}\0{text}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return Document(id, title, [Passage(piece) for piece in split(text)], version)


def made_here(limit: int | None = None) -> Iterator[Retrieval | str]:
    """The sets, or why one cannot be made; from the first so many texts that are found."""
    for name, read in SETS.items():
        texts = list(islice(read(), limit))
        yield _drawn(name, texts) if texts else f"{name}: there is nothing here to make it from"


def _drawn(name: str, texts: list[Text]) -> Retrieval:
    rng = random.Random(SEED)
    texts = sorted({each.text: each for each in sorted(texts)}.values())
    times = Counter(each.asked.casefold() for each in texts)
    asked = [each for each in texts if each.asked and times[each.asked.casefold()] == 1]
    asked = rng.sample(asked, min(MOST_QUERIES, len(asked)))
    chosen = {each.id for each in asked}
    others = [each for each in texts if each.id not in chosen]
    others = rng.sample(others, min(MOST_DOCUMENTS - len(asked), len(others)))
    return Retrieval(
        name,
        [document(each.id, each.title, each.text[:LONGEST]) for each in sorted([*asked, *others])],
        {each.id: each.asked for each in sorted(asked)},
        {each.id: {each.id: 1} for each in asked},
    )


# --- the first line of a docstring, and the function without it


def functions() -> Iterator[Text]:
    paths = [path for path in _files("*.py") if "test" not in _name(path) and path.stat().st_size < LARGEST_SOURCE]
    random.Random(SEED).shuffle(paths)
    return islice((each for path in paths for each in _functions(path)), 2 * MOST_DOCUMENTS)


def _functions(path: Path) -> Iterator[Text]:
    try:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
    except (SyntaxError, UnicodeDecodeError, ValueError):
        return
    lines, name = source.splitlines(), _name(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (found := _function(node, lines)):
            yield Text(f"{name}:{node.lineno}", name.removesuffix(".py").replace("/", "."), *found)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> tuple[str, str] | None:
    docstring = ast.get_docstring(node)
    if not docstring or len(node.body) < 2 or node.end_lineno is None or not 3 <= len(node.body[1:]) <= 40:
        return None
    first = docstring.split("\n\n")[0].replace("\n", " ").strip()
    if not 4 <= len(query_terms(first)) <= 15 or not first.isascii():
        return None
    head = lines[node.lineno - 1 : node.body[0].lineno - 1]
    rest = lines[node.body[0].end_lineno or node.lineno : node.end_lineno]
    return "\n".join(line[node.col_offset :] for line in [*head, *rest]), first


# --- a heading, and the section without it

_MARKDOWN = re.compile(r"^#{1,6} +(?P<heading>.+?)[ #]*$", re.MULTILINE)
_UNDERLINED = re.compile(
    r"^(?:(?P<over>[=\-~*^#\"'+])(?P=over){2,}\n)?(?P<heading>\S[^\n]{2,})\n(?P<mark>[=\-~*^#\"'+])(?P=mark){2,}$",
    re.MULTILINE,
)
_FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_MARKUP = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|<[^>]*>|[`*]|:\w+:(?=`)")
_PLAIN = re.compile(r"[^\W\d_]{2,}")


def sections() -> Iterator[Text]:
    for name, title, text in _documentation():
        text = _FENCED.sub(lambda found: found[0].replace("\n#", "\n #"), text)  # a comment is no heading
        pattern = _MARKDOWN if _MARKDOWN.search(text) else _UNDERLINED
        found = list(pattern.finditer(text))
        for match, following in zip_longest(found, found[1:]):
            heading = " ".join(_MARKUP.sub(r"\1", match["heading"]).split())
            body = text[match.end() : following.start() if following else None].strip()
            if len(body) >= 80:
                words = len(_PLAIN.findall(heading))
                good = 2 <= words <= 15 and not re.search(r"\d\.\d", heading)
                yield Text(f"{name}:{match.start()}", title, body, heading if good else "")


def _documentation() -> Iterator[tuple[str, str, str]]:
    """Name, title and text of what packages say about themselves, and of the language's reference."""
    from pydoc_data.topics import topics

    for name, text in sorted(topics.items()):
        yield f"topics/{name}", "Python", text
    for each in sorted(distributions(), key=lambda each: each.metadata["Name"].casefold()):
        text = str(each.metadata.json.get("description", ""))  # from the header or the body, as its version has it
        yield f"metadata/{each.metadata['Name']}", each.metadata["Name"], text
    for suffix in ("*.md", "*.rst"):
        for path in _files(suffix):
            name = _name(path)
            if ".dist-info" not in name and "CHANGELOG" not in name.upper():
                yield name, path.stem, path.read_text(encoding="utf-8", errors="replace")


# --- what a manual page is said to be for, and its description

_ROFF_COMMENT = re.compile(r"^[.'] *\\\".*$|\\\".*$", re.MULTILINE)
_ROFF_ESCAPE = re.compile(r"\\f(?:\[[^\]]*\]|\(..|.)|\\[&|^/,%:]|\\s[-+]?\d+|\\\*(?:\[[^\]]*\]|\(..|.)")
_ROFF_SECTION = re.compile(r"^\.S[Hh] +\"?([^\"\n]*)\"?\s*$", re.MULTILINE)
_ROFF_MACRO = re.compile(r"^[.'] ?(\w+)[ \t]*(.*)$", re.MULTILINE)
_ROFF_TEXT = {"B", "I", "BR", "BI", "IR", "IB", "RB", "RI", "SM", "SB", "Nm", "Fl", "Ar", "Pa", "Xr", "Dq", "Sq", "Ql"}
_ROFF_TEXT |= {"Em", "Sy", "Fn", "Va", "Ic", "Cm", "It", "SS", "Ss", "IP", "Nd", "Dv", "Er"}


def manual() -> Iterator[Text]:
    families: Counter[str] = Counter()
    for section in MANUAL_SECTIONS:
        for path in sorted((MANUAL / f"man{section}").glob("*.gz")):
            family = re.split(r"[-_.:]", path.name)[0]
            if path.is_symlink() or families[family] == MOST_OF_A_FAMILY:
                continue
            source = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
            parts = _manual_parts(source)
            _, dash, purpose = parts.get("NAME", "").partition(" - ")
            body = parts.get("DESCRIPTION", "")
            if dash and len(body) >= 200 and len(query_terms(purpose)) >= 2 and "\n" not in purpose.strip():
                families[family] += 1
                yield Text(path.name, "", body, " ".join(purpose.split()))


def _manual_parts(source: str) -> dict[str, str]:
    source = _ROFF_COMMENT.sub("", source)
    pieces = _ROFF_SECTION.split(source)
    return {heading.strip().upper(): _unmarked(body) for heading, body in zip(pieces[1::2], pieces[2::2], strict=True)}


def _unmarked(roff: str) -> str:
    text = _ROFF_MACRO.sub(lambda found: _macro(found[1], found[2]), roff)
    text = _ROFF_ESCAPE.sub("", text.replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\"))
    return re.sub(r"\n\s*\n+", "\n\n", text.replace("\\ ", " ")).strip()


def _macro(name: str, rest: str) -> str:
    if name == "Nd":
        return f" - {rest}"
    return rest.replace('"', "") if name in _ROFF_TEXT else ""


# --- a lint rule's message, and why there is such a rule


_PLACEHOLDER = re.compile(r"[`'\"]?\{\w*\}[`'\"]?")


def rules() -> Iterator[Text]:
    """Among the sections of the documentation, which are in the way."""
    command = [Path(sys.executable).parent / "ruff", "rule", "--all", "--output-format", "json"]
    listed = subprocess.run(command, check=True, capture_output=True)
    for rule in json.loads(listed.stdout):
        parts = re.split(r"^## (.*)$", rule["explanation"], flags=re.MULTILINE)
        by_heading = dict(zip(parts[1::2], parts[2::2], strict=True))
        body = "\n\n".join(
            by_heading[heading].strip() for heading in ("Why is this bad?", "Example") if heading in by_heading
        )
        if body:
            asked = " ".join(_PLACEHOLDER.sub("", rule["summary"]).split())
            yield Text(f"ruff/{rule['code']}", "", body, asked)
    yield from (each._replace(asked="") for each in sections())


SETS: Mapping[str, Callable[[], Iterator[Text]]] = {
    "docstring to function": functions,
    "heading to section": sections,
    "purpose to manual page": manual,
    "message to lint rule": rules,
}


@cache
def _files(pattern: str) -> list[Path]:
    """Of the standard library and the installed packages."""
    standard, packages = (Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))
    library = [path for path in standard.rglob(pattern) if "site-packages" not in path.parts]
    return sorted([*library, *packages.rglob(pattern)])


def _name(path: Path) -> str:
    for name in ("purelib", "stdlib"):
        folder = Path(sysconfig.get_path(name))
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return path.as_posix()


# --- others' sets


def read_beir(folder: Path) -> Retrieval:
    """corpus.jsonl, queries.jsonl and qrels/test.tsv, as BEIR has them."""
    documents = [document(row["_id"], row.get("title", ""), row["text"]) for row in _rows(folder / "corpus.jsonl")]
    relevant: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, found, gain = line.split("\t")
        if int(gain) > 0:
            relevant.setdefault(query, {})[found] = int(gain)
    queries = {row["_id"]: row["text"] for row in _rows(folder / "queries.jsonl") if row["_id"] in relevant}
    return Retrieval(folder.name, documents, queries, {query: relevant[query] for query in queries})


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


# --- questions without an answer, and with one that cannot be missed

MAX_RARE_QUERIES = 150
EVERYDAY = """
how long should a chicken roast in the oven
best time of year to plant tulips
why do cats purr when they sleep
how to remove red wine stains from a carpet
what is the capital of Mongolia
recipe for sourdough bread without yeast
how many players are in a volleyball team
symptoms of vitamin D deficiency
how to change a bicycle tyre
who painted the ceiling of the Sistine Chapel
does drinking coffee late disturb your sleep
cheapest train from Vienna to Venice
how tall do giraffes grow
what to wear to a summer wedding
how to prune an apple tree in winter
when did the Roman Empire fall
tips for teaching a toddler to swim
is it safe to eat raw oysters
how to knit a simple scarf
rules of offside in football
why is the sky blue at noon and red at dusk
how to get rid of ants in the kitchen
average rainfall in Lisbon in October
which muscles does rowing train
how to make soft scrambled eggs
what causes thunder and lightning
good names for a puppy
how to treat a mild sunburn
how far is the moon from the earth
what should I feed a hedgehog
how to iron a linen shirt
history of the violin
how to tell whether a melon is ripe
when do swallows fly south
how to tune a guitar by ear
do I need a visa for Japan
why do leaves turn yellow in autumn
how to clean a cast iron pan
what is a good marathon time for a beginner
how to build a snow shelter
""".strip().splitlines()


def everyday(retrieval: Retrieval) -> Retrieval:
    """What nothing in documentation answers."""
    return Retrieval(retrieval.name, [], {text: text for text in EVERYDAY}, {})


def rare_words(retrieval: Retrieval) -> Retrieval:
    """Words and identifiers that are in one document alone."""
    where: dict[str, set[str]] = {}
    stems: Counter[str] = Counter()
    for each in retrieval.documents:
        text = "\n".join([each.title, *(passage.text for passage in each.passages)])
        stems.update(set(terms(text)))
        for word in set(re.findall(r"[A-Za-z_]\w{3,}", text)):
            where.setdefault(word, set()).add(each.id)
    # The last term of an identifier is all of it; the others are its parts.
    rare = [word for word in sorted(where) if (found := query_terms(word)) and stems[found[-1]] == 1]
    rare = random.Random(SEED).sample(rare, min(MAX_RARE_QUERIES, len(rare), len(retrieval.documents)))
    return Retrieval(
        retrieval.name, [], {word: word for word in rare}, {word: dict.fromkeys(where[word], 1) for word in rare}
    )


if __name__ == "__main__":
    for made in made_here():
        if isinstance(made, str):
            print(made)
            continue
        passages = sum(len(each.passages) for each in made.documents)
        print(f"## {made.name}: {len(made.documents)} documents, {passages} passages, {len(made.queries)} queries")
        bodies = {each.id: each for each in made.documents}
        for query in list(made.queries)[:: max(1, len(made.queries) // 5)]:
            print(f"\n? {made.queries[query]}\n! {bodies[query].title}: {bodies[query].passages[0].text[:300]!r}")
