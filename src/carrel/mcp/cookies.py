"""The cookie in which a browser keeps the token of who has signed in at the page."""

from collections.abc import Mapping

NAME = "carrel_token"
SECURE = "https://"
OWN_SITE = frozenset({"same-origin", "none"})
LONGEST = 4000
"""Bytes of a token: browsers keep no cookie of more than 4,096 with its name and attributes."""

Headers = list[tuple[bytes, bytes]]


def cookie_name(address: str) -> str:
    """At an address with https, one that nobody but the very host can have set."""
    return f"__Host-{NAME}" if address.startswith(SECURE) else NAME


def cookies(headers: Headers, name: str) -> list[str]:
    """The values of all cookies of this name."""
    given = (value.decode("latin-1") for header, value in headers if header == b"cookie")
    pairs = (part.partition("=") for each in given for part in each.split(";"))
    return [value.strip() for key, _, value in pairs if key.strip() == name]


def set_cookie(name: str, token: str) -> Mapping[str, str]:
    """The header that has a browser keep a token, or forget it where it is empty. No script can read it, and no
    request that another site causes has it."""
    parts = [f"{name}={token}", "HttpOnly", "SameSite=Strict", "Path=/"]
    if name != NAME:
        parts.append("Secure")
    if not token:
        parts.append("Max-Age=0")
    return {"set-cookie": "; ".join(parts)}


def is_from_elsewhere(headers: Headers, public_url: str) -> bool:
    """Whether a browser says that it was another site, or another port of this host, that made it send this."""
    given = [(name, value.decode("latin-1").lower()) for name, value in headers]
    host = next((value for name, value in given if name == b"host"), "")
    for name, value in given:
        if name == b"sec-fetch-site" and value not in OWN_SITE:
            return True
        if name == b"origin" and value != public_url.lower() and value.partition("://")[2] != host:
            return True
    return False
