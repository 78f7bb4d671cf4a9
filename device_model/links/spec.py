"""The numbers of the links between devices: the table `[links]` of a profile.

Rates are in bytes per second and for one direction. A link is named by a tuple: its kind, and the numbers of the
devices, or of the network card, at its end.
"""

from typing import Any

from device_model.errors import ProfileError
from device_model.frozen import Frozen
from device_model.kernel.ranges import Count, Few

# The kind of a link, and the numbers of what is at its end: ("out", 3), ("pair", 0, 3).
Link = tuple[Any, ...]
Path = tuple[Link, ...]


class Switch(Frozen):
    """Every device has one link out to a switch and one in from it: NVLink with NVSwitch."""

    out_bytes_per_second: Count
    in_bytes_per_second: Count


class Mesh(Frozen):
    """Every pair of devices has a link of its own in each direction: HCCS."""

    pair_bytes_per_second: Count


class Pcie(Frozen):
    """Devices reach each other through the host, by the bus of each."""

    to_host_bytes_per_second: Count
    from_host_bytes_per_second: Count


class Network(Frozen):
    """Servers are joined by network cards, through a network that is not short of bandwidth itself."""

    server_devices: Few  # devices of a server
    devices_per_card: Few  # devices that share a network card
    card_bytes_per_second: Count
    hop_ns: int  # how much longer a transfer takes to arrive than inside a server


class LinksSpec(Frozen):
    """How devices are joined: inside a server by one of switch, mesh and pcie; servers by a network, if there is one.

    Attributes:
        switch: A link of each device to a switch.
        mesh: A link for each pair.
        pcie: The bus of the host.
        network: What joins servers; None: all devices are in one server.
    """

    switch: Switch | None
    mesh: Mesh | None
    pcie: Pcie | None
    network: Network | None

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.switch, self.mesh, self.pcie)) != 1:
            raise ProfileError(
                "links must have one of the tables links.switch, links.mesh and links.pcie: it says how the devices "
                "of a server are joined"
            )

    def path(self, source: int, target: int) -> Path:
        """Return the links from device *source* to device *target*; none if they are one device."""
        if source == target:
            return ()
        if (network := self.network) is not None and self.server(source) != self.server(target):
            return ("card out", source // network.devices_per_card), ("card in", target // network.devices_per_card)
        if self.mesh is not None:
            return (("pair", source, target),)
        if self.switch is not None:
            return ("out", source), ("in", target)
        return ("to host", source), ("from host", target)

    def latency_ns(self, source: int, target: int) -> int:
        """Return how much longer a transfer takes from *source* to *target* because it crosses the network."""
        crosses = self.network is not None and self.server(source) != self.server(target)
        return self.network.hop_ns if self.network is not None and crosses else 0

    def server(self, device: int) -> int:
        """Return the number of the server of *device*."""
        return 0 if self.network is None else device // self.network.server_devices

    def is_at(self, device: int, peer: int | None, link: Link) -> bool:
        """Whether *link* begins or ends at *device*, or at the network card that it shares with others; with *peer*
        whether copies between the two cross it.
        """
        if peer is not None:
            return link in self.path(device, peer) or link in self.path(peer, device)
        if link[0] in ("card out", "card in"):
            assert self.network is not None, f"{self!r} has no link {link!r}"
            return bool(link[1] == device // self.network.devices_per_card)
        return device in link[1:]

    def capacity(self, link: Link) -> float:
        """Return the bytes per nanosecond of *link*."""
        match link[0]:
            case "out" if self.switch is not None:
                rate = self.switch.out_bytes_per_second
            case "in" if self.switch is not None:
                rate = self.switch.in_bytes_per_second
            case "pair" if self.mesh is not None:
                rate = self.mesh.pair_bytes_per_second
            case "to host" if self.pcie is not None:
                rate = self.pcie.to_host_bytes_per_second
            case "from host" if self.pcie is not None:
                rate = self.pcie.from_host_bytes_per_second
            case "card out" | "card in" if self.network is not None:
                rate = self.network.card_bytes_per_second
            case _:
                raise AssertionError(f"{self!r} has no link {link!r}")
        return rate / 1e9
