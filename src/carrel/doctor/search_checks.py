"""Checks of the embedding provider and of the search index."""

import hashlib
import json
import platform
from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING

from carrel.doctor.checks import CheckContext, Finding, ok, one_line, problem, warning
from carrel.errors import CarrelError
from carrel.workspace.index_backlog import counts

if TYPE_CHECKING:
    from carrel.search.providers.provider import Provider

REINSTALL_CURE = "pip install --force-reinstall --no-deps carrel"
PROVIDER_CURE = 'set embeddings.provider to "openai", "ollama" or "none"'


def embeddings(context: CheckContext) -> Iterator[Finding]:
    from carrel.search.providers.provider import EmbeddingFailed, ProviderMissing
    from carrel.search.providers.provider_factory import open_provider

    settings = context.workspace.settings.embeddings
    try:
        provider = open_provider(
            settings.provider,
            model=settings.model,
            url=settings.url,
            api_key_env=settings.api_key_env,
            environ=context.environment,
            dimensions=settings.dimensions or None,
        )
        if provider is None:
            yield ok("embeddings", "none: search is by words only")
        elif settings.provider == "bundled":
            yield from _bundled(provider)
        else:
            (vector,) = provider.embed(["carrel doctor"])
            yield ok(
                "embeddings",
                f"{settings.provider} at {settings.url or 'its default address'} returns {len(vector)} dimensions",
            )
    except ProviderMissing:
        reason = f" ({platform.libc_ver()[0] or 'no glibc'}: it has no wheels for musl)" if _is_musl() else ""
        seen = f"onnxruntime is not installed{reason}: search is by words only"
        yield warning("embeddings", seen, PROVIDER_CURE if _is_musl() else "pip install onnxruntime")
    except EmbeddingFailed as error:
        cure = "start the server that embeddings.url names, or correct the [embeddings] settings"
        yield problem("embeddings", one_line(error), REINSTALL_CURE if settings.provider == "bundled" else cure)
    except CarrelError as error:  # conflicting settings; the message names the key
        variable = settings.api_key_env
        is_unset = variable and not context.environment.get(variable, "").strip()
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
            yield problem("embeddings", f"{name} of the bundled model is missing or damaged", REINSTALL_CURE)
            return
    reference = json.loads(folder.joinpath("reference.json").read_text(encoding="utf-8"))
    cosine = float(provider.embed([reference["text"]])[0] @ reference["vector"])
    if cosine >= MIN_REFERENCE_COSINE:
        yield ok("embeddings", f"bundled {MODEL}, files intact, cosine to the reference {cosine:.4f}")
    else:
        seen = f"bundled {MODEL} differs on this CPU (cosine {cosine:.4f}): semantic search is less accurate"
        yield warning("embeddings", seen, "use a CPU with fused multiply-add, or another embeddings.provider")


def index(context: CheckContext) -> Iterator[Finding]:
    try:
        found = counts(context.workspace, "passage", "pending")
    except CarrelError as error:
        if context.workspace.has_own_index:  # otherwise the check of the database reports it
            yield problem("index", f"the search index cannot be read: {error}", "carrel index --rebuild")
        return
    if found is None:
        yield ok("index", "the index is empty; a server or carrel index fills it")
        return
    passages, pending = found
    seen = f"{passages} passages, {pending} not embedded yet"
    if pending and context.workspace.settings.embeddings.provider != "none":
        yield warning("index", seen, "start a server, which embeds in the background, or run carrel index")
    else:
        yield ok("index", seen)
