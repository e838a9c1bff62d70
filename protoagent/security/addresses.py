"""What an IP address leads to. Pure, and independent of the Python version.

`ipaddress.is_global` is not enough: it says yes to 6to4, NAT64 and IPv4-compatible
addresses that carry a private one, and to the metadata service of Azure.
Source: https://www.iana.org/assignments/iana-ipv4-special-registry and its IPv6 twin.
"""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Reach(StrEnum):
    """Where an address leads; the value is the word people read."""

    PUBLIC = "public"
    LOOPBACK = "loopback"
    PRIVATE = "private"
    LINK_LOCAL = "link-local"
    METADATA = "cloud-metadata"
    MULTICAST = "multicast"
    RESERVED = "reserved"
    UNSPECIFIED = "unspecified"


# What an operator may mean when naming a server of their own; nothing else ever is.
OWN_NETWORK = frozenset({Reach.LOOPBACK, Reach.PRIVATE})

# Before the networks that contain them: 169.254.169.254 is link-local anyway, 100.100.100.200
# (Alibaba) is in the carrier range, 168.63.129.16 (Azure) in a public one, fd00:ec2:: (Amazon)
# and fd20:ce:: (Google) in the private one.
_METADATA = frozenset(
    map(IPv4Address, ("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16"))
) | frozenset(map(IPv6Address, ("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254")))

_V4: tuple[tuple[IPv4Network, Reach], ...] = tuple(
    (IPv4Network(text), reach)
    for text, reach in (
        ("0.0.0.0/8", Reach.UNSPECIFIED),
        ("127.0.0.0/8", Reach.LOOPBACK),
        ("10.0.0.0/8", Reach.PRIVATE),
        ("172.16.0.0/12", Reach.PRIVATE),
        ("192.168.0.0/16", Reach.PRIVATE),
        ("100.64.0.0/10", Reach.PRIVATE),
        ("169.254.0.0/16", Reach.LINK_LOCAL),
        ("192.0.0.0/24", Reach.RESERVED),
        ("192.0.2.0/24", Reach.RESERVED),
        ("192.88.99.0/24", Reach.RESERVED),
        ("198.18.0.0/15", Reach.RESERVED),
        ("198.51.100.0/24", Reach.RESERVED),
        ("203.0.113.0/24", Reach.RESERVED),
        ("224.0.0.0/4", Reach.MULTICAST),
        ("240.0.0.0/4", Reach.RESERVED),
    )
)
_V6: tuple[tuple[IPv6Network, Reach], ...] = tuple(
    (IPv6Network(text), reach)
    for text, reach in (
        ("::1/128", Reach.LOOPBACK),
        ("::/128", Reach.UNSPECIFIED),
        ("fc00::/7", Reach.PRIVATE),
        ("fec0::/10", Reach.PRIVATE),
        ("fe80::/10", Reach.LINK_LOCAL),
        ("ff00::/8", Reach.MULTICAST),
        # Protocol assignments, among them Teredo (2001::/32), whose payload is obfuscated.
        ("2001::/23", Reach.RESERVED),
        ("2001:db8::/32", Reach.RESERVED),
        ("3fff::/20", Reach.RESERVED),
    )
)
# Only this is handed out for the open internet; whatever else is not named above is reserved.
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_MAPPED = IPv6Network("::ffff:0:0/96")
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = IPv6Network("2002::/16")
_ISATAP = (0x00005EFE, 0x02005EFE)
_LOW_32 = 0xFFFF_FFFF


def reach(address: Address) -> Reach:
    """Where a connection to `address` ends up, looking through addresses that carry another."""
    if address in _METADATA:
        return Reach.METADATA
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _V4 if address in network), Reach.PUBLIC)
    plain = IPv6Address(int(address))  # without a zone
    if plain in _METADATA:
        return Reach.METADATA
    carried = _carried(plain)
    if carried is not None and (inner := reach(carried)) is not Reach.PUBLIC:
        return inner
    found = next((kind for network, kind in _V6 if plain in network), None)
    if found is not None:
        return found
    if plain in _GLOBAL_UNICAST or plain in _MAPPED or plain in _NAT64:
        return Reach.PUBLIC
    return Reach.RESERVED


def _carried(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that a gateway or the kernel takes out of `address`.

    Local-use NAT64 (64:ff9b:1::/48) hides it at a place that only its operator knows, so
    that range stays reserved as a whole.
    """
    value = int(address)
    if address in _MAPPED or address in _TRANSLATED or address in _NAT64:
        return IPv4Address(value & _LOW_32)
    if address in _SIX_TO_FOUR:
        return IPv4Address((value >> 80) & _LOW_32)
    if (value >> 32) & _LOW_32 in _ISATAP:
        return IPv4Address(value & _LOW_32)
    return None
