"""The options of a session."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from acl_py.errors import DeadlockError
from acl_py.faults import Fault, parse
from acl_py.options import Options
from device_model.integers import integer
from device_model.rules import ACL

if TYPE_CHECKING:
    from device_model.profile import DeviceProfile

_CARD = "ascend910b3"
_CARDS = range(1, 4097)  # how many there may be: as many as a profile may have


@dataclass
class SessionOptions:
    """The options that `install` or `acl-py run` set before the first call; `install` explains them."""

    device: "str | Path | DeviceProfile | None" = None  # None: the usual card of the face that begins the session
    devices: int | None = None
    rules: str | None = None
    workers: int | None = None
    host_time: str = "modelled"
    models: list[Path] = field(default_factory=list)
    hang_after: float | None = None  # real seconds until a wait that only another thread could end is a hang
    sanitize: bool | str | None = None  # as that of simulate
    effects: str | None = None  # as that of simulate
    instructions: int = 0  # as that of simulate
    overlay: str | Path | None = None  # as that of simulate
    faults: list[str] = field(default_factory=list)  # fault rules, as `acl-py replay --fault` takes them
    on_hang: Callable[[DeadlockError], None] | None = None  # hears of a hang before the script does

    def __post_init__(self) -> None:
        """Check the options that only a session has."""
        if self.devices is not None and integer("devices", self.devices) not in _CARDS:
            raise ValueError(f"devices must be {_CARDS.start} to {_CARDS.stop - 1:,}, not {self.devices}")
        if isinstance(self.models, str | Path):
            raise TypeError(f"models must be a list of folders, not {self.models!r}")
        for folder in self.models:
            if not Path(folder).is_dir():
                raise ValueError(f"models: there is no folder {str(folder)!r}")
        if isinstance(self.faults, str):
            raise TypeError(f"faults must be a list of rules, not {self.faults!r}")
        self.fault_rules()

    def fault_rules(self) -> list[Fault]:
        """Return the fault rules that are put in force when the session begins.

        Raises:
            FaultError: A text is no fault rule; a ValueError.
        """
        return [parse(text, "the options of the session") for text in self.faults]

    def of_simulation(self) -> Options:
        """Return the options of the simulation of a session.

        Raises:
            ValueError: The device or the overlay cannot be used.
        """
        asked = Options(
            self.device or _CARD,
            self.rules or ACL.name,
            workers=self.workers,
            host_time=self.host_time,
            hang_after=self.hang_after,
            sanitize=self.sanitize,
            effects=self.effects,
            instructions=self.instructions,
            overlay=self.overlay,
        )
        if self.devices is None:
            return asked
        profile, _ = asked.profile_and_rules()
        return replace(asked, device=replace(profile, devices=self.devices), overlay=None)


brought_in: dict[str, None] = {}  # a line for each file of code that sidecars loaded since `install`, in order
