"""The hosts on which the programs in tests/conformance/data were measured, as overlays of the profile h200.

    python -m tests.conformance.hosts

reads each file of data and writes what its host's calls and copies took to an overlay of the same name, beside this
module. acl_py.calibrate.readings says how.
"""

import json
from pathlib import Path
from statistics import mean, median

from acl_py.calibrate.readings import FEW, Readings
from device_model.profile import load

HERE = Path(__file__).parent
DATA = HERE.parent / "data"
SETS = ("timelines", "semantics", "waits", "timelines2", "staging", "gaps", "graphs", "managed")
WHAT = {"gap": "the gaps between calls", "gap_last": "what follows the last step"}
CURVES = ("pageable_small", "stage", "unstage", "host_to_host")  # of [copies]: what the host copies itself
H200 = load("h200")


def overlay_of(name: str) -> str:
    """Return the overlay of the host on which the programs of data/NAME.json were measured, as TOML."""
    readings = Readings(H200)
    for document in json.loads((DATA / f"{name}.json").read_text()):
        readings.read(document)
    lines = [
        f"# The host of tests/conformance/data/{name}.json: `python -m tests.conformance.hosts` wrote this.",
        "[host]",
    ]
    for value, ns in readings.values().items():
        what = WHAT.get(value) or f"{len(readings.costs[value])} calls"
        lines.append(f'{value} = {{ value = {ns:.0f}, source = "measured: {name}, {what}" }}')
    if len(readings.growth) >= FEW:
        rate = mean(readings.growth)
        source = f"measured: {name}, the profile's times {rate:.2f}, as {len(readings.growth)} first growths"
        for curve in ("pool_growth", "pool_trim"):
            points = [[size, round(ns * rate)] for size, ns in getattr(H200.host, curve).points]
            lines.append(f'{curve} = {{ value = {points}, source = "{source}" }}')
    if readings.blocking:
        late = round(1000 * min(readings.blocking), -2)
        lines.append(f'wake_asleep = {{ value = {late:.0f}, source = "measured: {name}, waits for blocking events" }}')
    if len(readings.asleep) >= FEW:
        late = round(1000 * median(readings.asleep) - H200.latency.host_function_start, -2)
        source = f"measured: {name}, {len(readings.asleep)} programs' first host functions"
        lines += ["", "[latency]", f'host_function_asleep = {{ value = {max(0, late):.0f}, source = "{source}" }}']
    if len(readings.rates) >= FEW:
        rate = median(readings.rates)
        source = f"measured: {name}, the profile's times {rate:.2f}, as {len(readings.rates)} copies that were alone"
        lines += ["", "[copies]"]
        for curve in CURVES:
            points = [[size, round(ns * rate)] for size, ns in getattr(H200.copies, curve).points]
            lines.append(f'{curve} = {{ value = {points}, source = "{source}" }}')
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the overlays of all files of data."""
    for name in SETS:
        (HERE / f"{name}.toml").write_text(overlay_of(name))


if __name__ == "__main__":
    main()
