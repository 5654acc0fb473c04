"""The provider that the settings name. Nothing is loaded and nobody is asked before it is used."""

from collections.abc import Mapping
from importlib.util import find_spec
from urllib.parse import urlsplit

from carrel.errors import UsageError
from carrel.search.providers.provider import Provider, ProviderMissing, Secret

KINDS = ("bundled", "openai", "ollama", "none")


def open_provider(
    kind: str, *, model: str, url: str, api_key_env: str, environ: Mapping[str, str], dimensions: int | None = None
) -> Provider | None:
    """None for "none". An empty `model` or `url` is the provider's own; an empty `api_key_env` sends no key.

    Raises `UsageError` for settings that cannot be, and `ProviderMissing` where the bundled model cannot run.
    """
    if kind not in KINDS:
        raise UsageError(f'[embeddings] provider is "{kind}"; it can be {", ".join(KINDS)}')
    if kind == "none":
        return None
    if dimensions is not None and dimensions < 1:
        raise UsageError(f"[embeddings] dimensions is {dimensions}; it must be at least 1")
    if kind == "bundled":
        return _bundled(model, dimensions)
    key = _key(api_key_env, environ)
    if kind == "ollama":
        from carrel.search.providers import remote

        url = _base(url or remote.OLLAMA_URL)
        return remote.OllamaProvider(url, model or remote.OLLAMA_MODEL, key=key, dimensions=dimensions)
    from carrel.search.providers import remote

    if url and not model:
        raise UsageError("[embeddings] model must name the model that the server at url is to use")
    url = _base(url or remote.OPENAI_URL)
    return remote.OpenAIProvider(url, model or remote.OPENAI_MODEL, key=key, dimensions=dimensions)


def _bundled(model: str, dimensions: int | None) -> Provider:
    from carrel.search.providers import bundled

    if model not in ("", bundled.MODEL):
        raise UsageError(f'[embeddings] model is "{model}", but the bundled provider has {bundled.MODEL} alone')
    if dimensions not in (None, bundled.DIMENSIONS):
        raise UsageError(f"[embeddings] dimensions is {dimensions}, but {bundled.MODEL} has {bundled.DIMENSIONS}")
    if find_spec("onnxruntime") is None or find_spec("numpy") is None:
        raise ProviderMissing(bundled.MISSING_RUNTIME)
    return bundled.BundledProvider()


def _base(url: str) -> str:
    wrong = UsageError("[embeddings] url must be the address of a server, such as https://api.openai.com/v1")
    try:
        parts = urlsplit(url)
        if parts.port == 0:
            raise wrong
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise wrong
    if parts.username is not None or parts.password is not None:
        raise UsageError("[embeddings] url must hold no password: name a variable with the key in api_key_env")
    return url


def _key(variable: str, environ: Mapping[str, str]) -> Secret:
    if not variable:
        return Secret("")
    key = environ.get(variable, "").strip()
    if not key:
        raise UsageError(f"[embeddings] api_key_env names {variable}, which is not set: set it, or clear api_key_env")
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise UsageError(f"the variable {variable} holds something that cannot be a key")
    return Secret(key)
