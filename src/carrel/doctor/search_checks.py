"""What makes vectors, and how far the search index is."""

import hashlib
import json
import platform
from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING

from carrel.doctor.checks import Finding, Subject, ok, one_line, problem, warning
from carrel.errors import CarrelError
from carrel.workspace.index_backlog import counts

if TYPE_CHECKING:
    from carrel.search.providers.provider import Provider

REINSTALL = "pip install --force-reinstall --no-deps carrel"
WORDS_ONLY = 'set embeddings.provider to "openai", "ollama" or "none"'


def embeddings(subject: Subject) -> Iterator[Finding]:
    from carrel.search.providers.provider import EmbeddingFailed, ProviderMissing
    from carrel.search.providers.provider_factory import open_provider

    given = subject.workspace.settings.embeddings
    try:
        provider = open_provider(
            given.provider,
            model=given.model,
            url=given.url,
            api_key_env=given.api_key_env,
            environ=subject.environment,
            dimensions=given.dimensions or None,
        )
        if provider is None:
            yield ok("embeddings", "none: search compares words only")
        elif given.provider == "bundled":
            yield from _bundled(provider)
        else:
            (vector,) = provider.embed(["carrel doctor"])
            yield ok(
                "embeddings", f"{given.provider} at {given.url or 'its own address'} gives {len(vector)} dimensions"
            )
    except ProviderMissing:
        where = f" ({platform.libc_ver()[0] or 'no glibc'}: there are no wheels for musl)" if _is_musl() else ""
        seen = f"onnxruntime is not installed{where}: search compares words only"
        yield warning("embeddings", seen, WORDS_ONLY if _is_musl() else "pip install onnxruntime")
    except EmbeddingFailed as error:
        cure = "start the server that embeddings.url names, or correct the [embeddings] settings"
        yield problem("embeddings", one_line(error), REINSTALL if given.provider == "bundled" else cure)
    except CarrelError as error:  # settings that do not go together; the text names the key
        variable = given.api_key_env
        is_unset = variable and not subject.environment.get(variable, "").strip()
        yield problem("embeddings", one_line(error), f"export {variable}=KEY" if is_unset else "correct [embeddings]")


def _is_musl() -> bool:
    return platform.system() == "Linux" and platform.libc_ver()[0] != "glibc"


def _bundled(provider: "Provider") -> Iterator[Finding]:
    from carrel.search.providers.bundled import MIN_REFERENCE_COSINE, MODEL

    folder = files("carrel.search.providers").joinpath("minilm")
    for line in folder.joinpath("checksums.txt").read_text(encoding="ascii").splitlines():
        wanted, name = line.split()
        part = folder.joinpath(name)
        if not part.is_file() or hashlib.sha256(part.read_bytes()).hexdigest() != wanted:
            yield problem("embeddings", f"{name} of the bundled model is missing or damaged", REINSTALL)
            return
    reference = json.loads(folder.joinpath("reference.json").read_text(encoding="utf-8"))
    cosine = float(provider.embed([reference["text"]])[0] @ reference["vector"])
    if cosine >= MIN_REFERENCE_COSINE:
        yield ok("embeddings", f"bundled {MODEL}, its files are whole, cosine to the reference {cosine:.4f}")
    else:
        seen = f"bundled {MODEL} gives other vectors on this CPU (cosine {cosine:.4f}): meaning is found less well"
        yield warning("embeddings", seen, "use a CPU with fused multiply-add, or another embeddings.provider")


def index(subject: Subject) -> Iterator[Finding]:
    try:
        found = counts(subject.workspace, "passage", "pending")
    except CarrelError as error:
        if subject.workspace.has_own_index:  # else the check of the database tells
            yield problem("index", f"the search index cannot be read: {error}", "carrel index --rebuild")
        return
    if found is None:
        yield ok("index", "nothing is indexed yet; a server or carrel index does it")
        return
    passages, pending = found
    seen = f"{passages} passages, {pending} still without meaning"
    if pending and subject.workspace.settings.embeddings.provider != "none":
        yield warning("index", seen, "a running server goes on with it, or run carrel index")
    else:
        yield ok("index", seen)
