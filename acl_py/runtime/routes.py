"""The direction of a copy, from its kind and from the memory at both ends."""

from enum import IntEnum

from device_model.memory import Space
from device_model.rules import CopyKind
from device_model.work import D2D, D2H, H2D, H2H, Label


class MemcpyKind(IntEnum):
    """aclrtMemcpyKind, with its values."""

    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    DEFAULT = 4  # the addresses decide
    HOST_TO_BUF_TO_DEVICE = 5
    INNER_DEVICE_TO_DEVICE = 6
    INTER_DEVICE_TO_DEVICE = 7


_HOST = (Space.PINNED, Space.PAGEABLE)
# Copies of managed memory are made by the device, and their kind may call it host or device memory.
_DEVICE = (Space.DEVICE, Space.MANAGED)
KINDS = frozenset(int(_kind) for _kind in MemcpyKind)
# The direction by (kind, space of dst, space of src). The spaces decide it; a copy without an entry is refused.
Routes = dict[tuple[int, int, int], Label]


def _fitting() -> Routes:
    """Return the table of rules that accept a kind only if it matches the spaces, or is DEFAULT."""
    kinds = MemcpyKind
    routes: Routes = {}
    for host in _HOST:
        for kind in (kinds.HOST_TO_DEVICE, kinds.HOST_TO_BUF_TO_DEVICE, kinds.DEFAULT):
            routes[kind, Space.DEVICE, host] = H2D
        for kind in (kinds.DEVICE_TO_HOST, kinds.DEFAULT):
            routes[kind, host, Space.DEVICE] = D2H
        for kind in kinds:
            routes[kind, Space.MANAGED, host] = H2D
            routes[kind, host, Space.MANAGED] = D2H
        for kind in (kinds.HOST_TO_HOST, kinds.DEFAULT):
            for other in _HOST:
                routes[kind, host, other] = H2H
    for kind in (kinds.DEVICE_TO_DEVICE, kinds.INNER_DEVICE_TO_DEVICE, kinds.INTER_DEVICE_TO_DEVICE, kinds.DEFAULT):
        routes[kind, Space.DEVICE, Space.DEVICE] = D2D
    for kind in kinds:
        for device in _DEVICE:
            routes[kind, Space.MANAGED, device] = D2D
            routes[kind, device, Space.MANAGED] = D2D
    return routes


def _corrected() -> Routes:
    """Return the table of ACL's asynchronous copies.

    Where no end is pageable, every kind is accepted; where one is, only some kinds are (documented:
    aclrtMemcpyAsync; and read in CANN's runtime, 1.17).
    """
    kinds = MemcpyKind
    device, pinned, pageable = Space.DEVICE, Space.PINNED, Space.PAGEABLE
    routes: Routes = {}
    for kind in kinds:
        routes[kind, device, pinned] = H2D
        routes[kind, pinned, device] = D2H
        routes[kind, device, device] = D2D
        routes[kind, pinned, pinned] = H2H
    for kind in (kinds.HOST_TO_DEVICE, kinds.DEVICE_TO_DEVICE, kinds.DEFAULT):
        routes[kind, device, pageable] = H2D
    for kind in (kinds.DEVICE_TO_HOST, kinds.DEVICE_TO_DEVICE, kinds.DEFAULT):
        routes[kind, pageable, device] = D2H
    for kind in (kinds.HOST_TO_HOST, kinds.HOST_TO_DEVICE, kinds.DEFAULT):
        routes[kind, pageable, pinned] = H2H
    for kind in (kinds.HOST_TO_HOST, kinds.DEVICE_TO_HOST, kinds.DEFAULT):
        routes[kind, pinned, pageable] = H2H
    for kind in (kinds.HOST_TO_HOST, kinds.HOST_TO_DEVICE, kinds.DEVICE_TO_HOST, kinds.DEVICE_TO_DEVICE, kinds.DEFAULT):
        routes[kind, pageable, pageable] = H2H
    return routes


_FITTING = _fitting()
_CORRECTED = _corrected()


def direction(dst: Space, src: Space) -> Label:
    """Return the direction of a copy from *src* to *dst*, of any kind."""
    return _FITTING[MemcpyKind.DEFAULT, dst, src]


def routes_of(rule: CopyKind) -> Routes:
    """Return the kinds that *rule* accepts for each pair of spaces, with their directions."""
    return _FITTING if rule is CopyKind.MUST_FIT else _CORRECTED


def _contradicted() -> dict[tuple[int, int, int], MemcpyKind]:
    """Return the kind that is meant, for each (kind, space of dst, space of src) of which both ends are otherwise."""
    kinds = MemcpyKind
    said = {  # whether the kind says that dst is on the device, and src
        kinds.HOST_TO_HOST: (False, False),
        kinds.DEVICE_TO_HOST: (False, True),
        kinds.HOST_TO_DEVICE: (True, False),
        kinds.HOST_TO_BUF_TO_DEVICE: (True, False),
        kinds.DEVICE_TO_DEVICE: (True, True),
        kinds.INNER_DEVICE_TO_DEVICE: (True, True),
        kinds.INTER_DEVICE_TO_DEVICE: (True, True),
    }
    meant = {ends: kind for kind, ends in reversed(said.items())}  # of several kinds, the plain one
    places = {Space.DEVICE: True, **dict.fromkeys(_HOST, False)}  # managed memory is both
    return {
        (kind, dst, src): meant[places[dst], places[src]]
        for kind, (to_device, from_device) in said.items()
        for dst in places
        for src in places
        if places[dst] is not to_device and places[src] is not from_device
    }


CONTRADICTED = _contradicted()


def asynchronous(routes: Routes) -> Routes:
    """Return the *routes* of copies in which the host takes no part, and no pages move."""
    others = {Space.PAGEABLE, Space.MANAGED}
    return {key: route for key, route in routes.items() if route is not H2H and others.isdisjoint(key[1:])}
