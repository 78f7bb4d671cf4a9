"""The options of a simulation, and what each of them may be."""

import os
import re
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from acl_py.late_imports import standard_library_first
from acl_py.parts import NEEDS_MODEL, parts_of
from device_model.errors import shown
from device_model.frozen import Frozen
from device_model.integers import integer
from device_model.rules import RULES, SyncRules

if TYPE_CHECKING:
    from device_model.profile import DeviceProfile

DEVICE, BODIES = "ACL_PY_DEVICE", "ACL_PY_BODIES"  # variables of the environment
_PLACING = {"device": DEVICE, "rules": "ACL_PY_RULES", "overlay": "ACL_PY_OVERLAY"}
HOST_TIMES = ("modelled", "measured")
_CLOCKS = ("simulated", "real", None)
_BODIES = (None, "refuse", "host", "time")
_CARD = re.compile(r"(cuda|npu):(\d{1,4})")


class Card(NamedTuple):
    """A real card: number *number* of its vendor's driver, which is "cuda" or "npu"."""

    vendor: str
    number: int


def card_of(device: object) -> Card | None:
    """Return the card that *device* names, as "cuda:0" and "npu:0" do; None for a device that is simulated."""
    match = _CARD.fullmatch(device) if isinstance(device, str) else None
    return None if match is None else Card(match[1], int(match[2]))


def placed_on_card(device: object) -> bool:
    """Return whether a program that names *device* runs on a card: the environment may name another one."""
    return card_of(os.environ.get(DEVICE) or device) is not None


def place(**given: str | None) -> None:
    """Let simulations that begin from now on, here and in processes that start, have the *given* device, rules and
    overlay, whatever the program says; None leaves what it says.
    """
    for name, value in given.items():
        if value is not None:
            os.environ[_PLACING[name]] = os.path.abspath(value) if value.endswith(".toml") else value


class Options(Frozen):
    """How a simulation runs; `simulate` says what each option means. The public functions spell them out in their
    signatures, with the same defaults.
    """

    device: "str | Path | DeviceProfile" = "h200"
    rules: str | SyncRules | None = None
    workers: int | None = None
    host_time: str = "modelled"
    trace: bool = True
    instructions: int = 0
    seed: int = 0
    hang_after: float | None = None
    clock: str | None = None
    sanitize: bool | str | None = None
    effects: str | None = None
    overlay: str | Path | None = None
    bodies: str | None = None
    hccl_timeout_s: float | None = None
    values: bool = True

    @property
    def card(self) -> Card | None:
        """The card that the device names; None for a device that is simulated."""
        return card_of(self.device)

    def placed(self) -> "Options":
        """Return these options with the device, the rules and the overlay that the environment names, if it does:
        whatever the program says. On a card, what the program says of the model's times and speed is left out.
        """
        given = {name: value for name, variable in _PLACING.items() if (value := os.environ.get(variable))}
        if not given:
            return self
        placed = replace(self, **given)  # type: ignore[arg-type]  # texts, which all three may be
        if "device" not in given:
            return placed
        placed = replace(placed, bodies=self.bodies or os.environ.get(BODIES))
        if placed.card is None:
            return placed
        return replace(
            placed, workers=None, instructions=0, overlay=None, host_time=HOST_TIMES[0], clock=None,
            hccl_timeout_s=None, values=True,
        )  # fmt: skip

    def check(self) -> None:
        """Check all but the device, the overlay and the rules, which `profile_and_rules` reads, and *sanitize* and
        *effects*, which their readers check.

        Raises:
            TypeError: A number is none.
            ValueError: An option has a value that it cannot have.
        """
        if self.workers is not None and integer("workers", self.workers) < 1:
            raise ValueError(f"workers must be 1 or more, not {self.workers}")
        if integer("seed", self.seed) < 0:
            raise ValueError(f"seed must be 0 or more, not {self.seed}")
        if integer("instructions", self.instructions) < 0 or (self.instructions and not self.trace):
            raise ValueError(
                f"instructions={self.instructions} is how many instructions of each launch the trace keeps: "
                "0 or more, and more than 0 only with trace=True"
            )
        if self.hang_after is not None:
            _check_seconds("hang_after", self.hang_after)
        if self.hccl_timeout_s is not None:
            _check_seconds("hccl_timeout_s", self.hccl_timeout_s)
        if not isinstance(self.values, bool):
            raise TypeError(f"values must be True or False, not {shown(self.values)}")
        if not self.values:
            self._check_without_values()
        if self.host_time not in HOST_TIMES:
            raise ValueError(f"host_time must be one of {', '.join(HOST_TIMES)}, not {self.host_time!r}")
        if self.clock not in _CLOCKS:
            raise ValueError(f"clock must be 'simulated', 'real' or None, not {self.clock!r}")
        if self.bodies not in _BODIES:
            raise ValueError(f"bodies must be one of {', '.join(map(repr, _BODIES))}, not {self.bodies!r}")
        if self.card is not None:
            self._check_card()
        elif self.bodies is not None:
            raise ValueError(f"bodies={self.bodies!r} is for cards: on the model each body runs, in its modelled time")

    def _check_without_values(self) -> None:
        """Refuse options that look at bytes."""
        if self.effects not in (None, "strong"):
            raise ValueError(
                f"effects={self.effects!r} with values=False: which bytes a reader sees is a question about values; "
                "leave one of the two out"
            )
        if isinstance(self.sanitize, str) and (asked := parts_of(self.sanitize) & NEEDS_MODEL):
            raise ValueError(
                f"sanitize={self.sanitize!r} with values=False: the part {' or '.join(sorted(asked))} looks at bytes; "
                "leave it out, or run with values"
            )

    def _check_card(self) -> None:
        """Refuse options that a card has no use for."""
        if isinstance(self.sanitize, str) and (asked := parts_of(self.sanitize) & NEEDS_MODEL):
            raise ValueError(
                f"sanitize={self.sanitize!r} with device={self.device!r}: a card does not show what the part "
                f"{' or '.join(sorted(asked))} looks at; leave it out, or sanitize the program on the model"
            )
        for name, value, why in (
            ("workers", self.workers, "the card does the work"),
            ("instructions", self.instructions or None, "a card tells no instructions"),
            ("effects", self.effects, "a card shows the effects that it has"),
            ("overlay", self.overlay, "calls take the time that they take"),
            ("host_time", None if self.host_time == HOST_TIMES[0] else self.host_time, "time is real"),
            ("hccl_timeout_s", self.hccl_timeout_s, "a communicator is made on the model only"),
            ("values", None if self.values else False, "a card computes all values"),
            ("clock", "simulated" if self.clock == "simulated" else None, "time is real"),
        ):
            if value is not None:
                raise ValueError(f"{name}={value!r} with device={self.device!r}: {why}; leave it out")

    def profile_and_rules(self) -> "tuple[DeviceProfile, SyncRules]":
        """Return the profile with the overlay, and the rules, which are by default those of the profile.

        Raises:
            TypeError: One of them is no name, no path, and nothing else that it may be.
            ProfileError: The profile or the overlay cannot be used; a ValueError.
            ValueError: There are no rules of that name.
        """
        with standard_library_first():  # late: a program that imports the package may begin no simulation
            from device_model.profile import DeviceProfile, load
        if not isinstance(self.device, str | Path | DeviceProfile):
            what = "the name of a profile, the path of a .toml file or a DeviceProfile"
            raise TypeError(f"device must be {what}, not {shown(self.device)}")
        profile = load(self.device)
        if self.overlay is not None:
            if not isinstance(self.overlay, str | Path):
                what = "the name of an overlay or the path of a .toml file"
                raise TypeError(f"overlay must be {what}, not {shown(self.overlay)}")
            with standard_library_first():
                from device_model.overlay import load as lay
            profile = lay(self.overlay, profile)
        rules = profile.rules if self.rules is None else self.rules
        if isinstance(rules, SyncRules):
            return profile, rules
        if not isinstance(rules, str):
            raise TypeError(f"rules must be one of {', '.join(RULES)} or a SyncRules, not {shown(rules)}")
        if rules not in RULES:
            raise ValueError(f"there are no rules {rules!r}; there are {', '.join(RULES)}")
        return profile, RULES[rules]


def _check_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {shown(value)}")
    if isnan(value) or value < 0:
        raise ValueError(f"{name} must be 0 seconds or more, not {value}")
