"""Where requests come from, as limits count it."""

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
