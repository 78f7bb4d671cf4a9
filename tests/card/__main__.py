"""Campaigns on a card: `python -m tests.card programs COUNT`, `costs`, `waits` and `measure SET`.

With --on-card they use a real one, otherwise the simulated driver. `compare FILE` reads what `measure` has written.
"""

import argparse
import json
from pathlib import Path

import acl_py
from acl_py.calibrate.machine import open_machine
from acl_py.compat import cuda as switch
from acl_py.compat.acl.face.current import current_session
from device_model import overlay
from device_model.profile import load
from tests.card import measuring
from tests.card.costs import costs, waits
from tests.card.programs import compare


def main() -> None:
    """Read the arguments, and run the campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.card")
    campaigns = parser.add_subparsers(required=True, dest="campaign")
    programs = campaigns.add_parser("programs", help="random programs, on a card and on the model")
    programs.add_argument("count", type=int)
    programs.add_argument("--first", type=int, default=0)
    campaigns.add_parser("costs", help="verbs beside the bare calls of the driver")
    campaigns.add_parser("waits", help="waits for a kernel of 20 us")
    measured = campaigns.add_parser(
        "measure", help="stream programs of tests/conformance/data, and the model beside them"
    )
    measured.add_argument("name", help="such as timelines2")
    measured.add_argument("--count", type=int, help="only so many of them")
    measured.add_argument("--json", type=Path, help="write them, with what was observed, to this file")
    compared = campaigns.add_parser("compare", help="the model beside programs that `measure` has written")
    compared.add_argument("file", type=Path)
    for each in (measured, compared):
        each.add_argument("--overlay", action="append", default=[], help="what calibrate has written")
    for each in campaigns.choices.values():
        each.add_argument("--on-card", action="store_true", help="a real one, and not the simulated driver")
    chosen = parser.parse_args()
    if not chosen.on_card:
        switch.install(device="h200", workers=1)
    if chosen.campaign in ("measure", "compare"):
        _measure(chosen)
    elif chosen.campaign == "programs":
        count, differ = compare(range(chosen.first, chosen.first + chosen.count), "cuda:0")
        print(f"{chosen.count} programs, {count} of them without races; {differ} of these differ")
    else:
        acl_py.run({"costs": costs, "waits": waits}[chosen.campaign], device="cuda:0", trace=False)


def _measure(chosen: argparse.Namespace) -> None:
    if chosen.campaign == "compare":
        documents = json.loads(chosen.file.read_text())
    else:
        machine = open_machine(0)
        if not chosen.on_card:
            session = current_session()
            assert session is not None, "the driver has begun"
            machine.clock = lambda: session.runtime.host_ns
        documents = measuring.measure(machine, chosen.name, chosen.count)
        machine.close()
        if chosen.json is not None:
            chosen.json.write_text(json.dumps(documents))
    h200 = load("h200")
    measuring.compare(documents, {"h200": h200} | {each: overlay.load(each, h200) for each in chosen.overlay})


if __name__ == "__main__":
    main()
