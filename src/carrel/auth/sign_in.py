"""Signing in at the page: the cookie that keeps a token, and how often an address may fail."""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address


def network_of(address: str) -> str:
    """What one client can hold: an IPv4 address, or the IPv6 network of 64 bits that it can choose any address from.

    What is not an address counts as it is.
    """
    try:
        found: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        found = found.ipv4_mapped or found
    return str(found) if isinstance(found, IPv4Address) else str(IPv6Network((int(found), 64), strict=False))


def is_loopback(address: str) -> bool:
    try:
        found: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        found = found.ipv4_mapped or found
    return found.is_loopback


WINDOW_SECONDS = 60.0
SWEEP_SIZE = 4096


class SignInLimiter:
    """Counts failed sign-ins by address, in this process, over a sliding minute.

    Requests with a token in their header are not counted: a token has 256 random bits or a signature, and a client
    whose token has expired needs its 401 to fetch another, also behind an address that many share.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`per_minute` 0 sets no limit."""
        self._limit = per_minute
        self._clock = clock
        self._failures: dict[str, deque[float]] = {}

    def retry_after(self, address: str) -> int | None:
        """None if the address may try to sign in, else the seconds until it may."""
        if not self._limit or (failures := self._failures.get(network_of(address))) is None:
            return None
        now = self._clock()
        while failures and failures[0] <= now - WINDOW_SECONDS:
            failures.popleft()
        if len(failures) < self._limit:
            return None
        return max(1, math.ceil(failures[-self._limit] + WINDOW_SECONDS - now))

    def record_failure(self, address: str) -> None:
        if not self._limit:
            return
        now = self._clock()
        if len(self._failures) >= SWEEP_SIZE:
            self._failures = {key: each for key, each in self._failures.items() if each[-1] > now - WINDOW_SECONDS}
        self._failures.setdefault(network_of(address), deque(maxlen=self._limit)).append(now)


COOKIE_NAME = "carrel_token"
HTTPS_PREFIX = "https://"
SAME_ORIGIN_FETCH_SITES = frozenset({"same-origin", "none"})
MAX_TOKEN_BYTES = 4000
"""Bytes of a token: browsers keep no cookie of more than 4,096 with its name and attributes."""

Headers = list[tuple[bytes, bytes]]


def cookie_name(address: str) -> str:
    """At an address with https, one that nobody but the very host can have set."""
    return f"__Host-{COOKIE_NAME}" if address.startswith(HTTPS_PREFIX) else COOKIE_NAME


def cookies(headers: Headers, name: str) -> list[str]:
    """The values of all cookies of this name."""
    given = (value.decode("latin-1") for header, value in headers if header == b"cookie")
    pairs = (part.partition("=") for each in given for part in each.split(";"))
    return [value.strip() for key, _, value in pairs if key.strip() == name]


def set_cookie(name: str, token: str) -> Mapping[str, str]:
    """The header that has a browser keep a token, or forget it where it is empty. No script can read it, and no
    request that another site causes has it."""
    parts = [f"{name}={token}", "HttpOnly", "SameSite=Strict", "Path=/"]
    if name != COOKIE_NAME:
        parts.append("Secure")
    if not token:
        parts.append("Max-Age=0")
    return {"set-cookie": "; ".join(parts)}


def is_cross_origin(headers: Headers, public_url: str) -> bool:
    """Whether a browser says that it was another site, or another port of this host, that made it send this."""
    given = [(name, value.decode("latin-1").lower()) for name, value in headers]
    host = next((value for name, value in given if name == b"host"), "")
    for name, value in given:
        if name == b"sec-fetch-site" and value not in SAME_ORIGIN_FETCH_SITES:
            return True
        if name == b"origin" and value != public_url.lower() and value.partition("://")[2] != host:
            return True
    return False
