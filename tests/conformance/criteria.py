"""What it means to behave as the card did: the criteria, and the measured programs to hold them against.

Data: programs and observations of an NVIDIA H200 (CUDA 13.0, driver 580), one list per file. `observed.host[i]` has
`cost_us` (median) and the return codes seen; `observed.device` start and end of operations under a tracer;
`observed.makespan_us` the median, with a device sync at the end.
"""

import json
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

from acl_py.programs.format import GRAPH_OPS, Program, parse
from acl_py.programs.replay import Replay, replay
from device_model import overlay
from device_model.profile import DeviceProfile, load

DATA = Path(__file__).parent / "data"
HOSTS = Path(__file__).parent / "hosts"
LONG_US = 500  # a call that takes as long has waited for something
EXCUSED_US = (350, 700)  # too near to that to tell
RATIO = (0.7, 1.4)  # of a long call
COUNTED_US = 20  # calls that cost as much have to cost as much here
COST = (0.3, 15)  # or within so many microseconds
UNCOUNTED = ("launch", "host_func", "add_callback")  # what they cost the host changes from run to run
LONG_OP_US = 400  # operations whose overlap counts
SHARE = 0.3  # how far overlapped shares may differ


@cache
def measured(name: str) -> list[dict[str, Any]]:
    """The measured programs of one data file."""
    return json.loads((DATA / f"{name}.json").read_text())


def is_capture(document: dict[str, Any]) -> bool:
    """Does it capture streams or use graphs?"""
    return any(step["op"] in GRAPH_OPS for step in document["steps"])


@cache
def replayed(name: str, id_: str) -> Replay:
    """The program *id_* of one data file, run on the simulated H200, with the host on which it was measured."""
    return replay(program(next(each for each in measured(name) if each["id"] == id_)), device=card(name))


@cache
def card(name: str) -> DeviceProfile:
    """The simulated H200 with the host on which the programs of one data file were measured."""
    file = HOSTS / f"{name}.toml"
    return overlay.load(file, load("h200")) if file.exists() else load("h200")


def program(document: dict[str, Any]) -> Program:
    """The program of a measured document."""
    return parse(document)


def wrong_codes(document: dict[str, Any], ours: Replay) -> list[str]:
    """Calls whose return code the card never gave."""
    return [
        f"step {step} ({document['steps'][step]['op']}): card {card['ret']}, ours {call.ret}"
        for step, card, call in _calls(document, ours)
        if call.ret not in card["ret"]
    ]


def is_near(card_us: float, ours_us: float) -> bool:
    """Within 30 % from 20 us on; below, within 40 % or 1.5 us: about 1 us of a call is the measuring script's."""
    return abs(ours_us - card_us) <= (0.3 * card_us if card_us >= 20 else max(0.4 * card_us, 1.5))


def far_calls(document: dict[str, Any], ours: Replay, least_us: float) -> list[str]:
    """Calls of *least_us* and more that take much longer or shorter here."""
    return [
        f"step {step} ({document['steps'][step]['op']}): card {card['cost_us']:.1f} us, ours {here:.1f} us"
        for step, card, call in _calls(document, ours)
        for here in [call.exit_us - call.enter_us]
        if card["cost_us"] >= least_us and not is_near(card["cost_us"], here)
    ]


def wrong_waits(document: dict[str, Any], ours: Replay) -> list[str]:
    """Calls that wait here and not there, or the other way round, or for much longer or shorter."""
    wrong = []
    for step, card, call in _calls(document, ours):
        there, here = card["cost_us"], call.exit_us - call.enter_us
        if EXCUSED_US[0] <= there <= EXCUSED_US[1]:
            continue
        op = f"step {step} ({document['steps'][step]['op']}): card {there:.1f} us, ours {here:.1f} us"
        if (there >= LONG_US) != (here >= LONG_US):
            wrong.append(f"{op}: only one of them waited")
        elif there >= LONG_US and not RATIO[0] <= here / there <= RATIO[1]:
            wrong.append(f"{op}: {here / there:.2f} times as long")
    return wrong


def counted_calls(document: dict[str, Any], ours: Replay) -> list[tuple[int, float, float]]:
    """The step of each call of 20 us or more, what it cost on the card, and what it costs here."""
    return [
        (step, card["cost_us"], call.exit_us - call.enter_us)
        for step, card, call in _calls(document, ours)
        if card["cost_us"] >= COUNTED_US and document["steps"][step]["op"] not in UNCOUNTED
    ]


def wrong_costs(document: dict[str, Any], ours: Replay) -> list[str]:
    """Calls of 20 us or more that cost more than 30 % and 15 us more or less than there."""
    share, least = COST
    return [
        f"step {step} ({document['steps'][step]['op']}): card {there:.1f} us, ours {here:.1f} us"
        for step, there, here in counted_calls(document, ours)
        if abs(here - there) > max(share * there, least)
    ]


def wrong_overlaps(document: dict[str, Any], ours: Replay) -> list[str]:
    """Pairs of long operations that overlap to another degree."""
    card = {id_: (op["start_us"], op["end_us"]) for id_, op in document["observed"].get("device", {}).items()}
    here = {id_: (op.start_us, op.end_us) for id_, op in ours.device.items()}
    missing = [f"{id_} did not run" for id_ in card if id_ not in here]
    long = [id_ for id_, (start, end) in card.items() if end - start >= LONG_OP_US and id_ in here]
    return missing + [
        f"{a} and {b}: card {_share(card[a], card[b]):.2f}, ours {_share(here[a], here[b]):.2f}"
        for a, b in combinations(long, 2)
        if abs(_share(card[a], card[b]) - _share(here[a], here[b])) > SHARE
    ]


def makespan_error(document: dict[str, Any], ours: Replay) -> float:
    """How much longer ours takes, in percent of the card's median; negative if shorter."""
    there: float = document["observed"]["makespan_us"]
    return 100 * (ours.makespan_us / there - 1)


def is_within_runs(document: dict[str, Any], makespan_us: float) -> bool:
    """Whether a makespan lies between the card's fastest and slowest run."""
    observed = document["observed"]
    return bool(observed["makespan_min_us"] <= makespan_us <= observed["makespan_max_us"])


def uses(document: dict[str, Any]) -> tuple[bool, bool]:
    """Whether a program copies pageable memory, and whether it has host functions."""
    spaces = {name: buffer["space"] for name, buffer in document["buffers"].items()}
    ends = {spaces.get(step[end]) for step in document["steps"] for end in ("dst", "src") if end in step}
    return "pageable" in ends, any(step["op"] in ("host_func", "add_callback") for step in document["steps"])


def late_starts(document: dict[str, Any], ours: Replay) -> list[tuple[float, float]]:
    """When each kernel starts there and here, in microseconds from the start of the first one."""
    return [
        (there[0], here[0])
        for id_, runs in document["observed"].get("log", {}).items()
        for there, here in zip(runs, ours.log.get(id_, ()), strict=True)
    ]


def distribution(errors: list[float]) -> tuple[float, float, float]:
    """Median, 90th percentile and maximum of the magnitudes of *errors*."""
    sizes = sorted(map(abs, errors))
    return median(sizes), sizes[min(len(sizes) - 1, int(len(sizes) * 0.9))], sizes[-1]


def _calls(document: dict[str, Any], ours: Replay) -> list[tuple[int, dict[str, Any], Any]]:
    return [(card["step"], card, ours.host[card["step"]]) for card in document["observed"]["host"]]


def _share(a: tuple[float, float], b: tuple[float, float]) -> float:
    """The part of the shorter one during which both run."""
    shorter = min(a[1] - a[0], b[1] - b[0])
    return max(0.0, min(a[1], b[1]) - max(a[0], b[0])) / shorter if shorter > 0 else 0.0
