"""Campaigns: `python -m tests.card programs COUNT`, `costs`, `waits`, `times` and `samples`; --on-card: on a real one."""

import argparse

import acl_py
from acl_py.compat import cuda as switch
from tests.card.costs import costs, waits
from tests.card.programs import compare
from tests.card.samples import report
from tests.card.times import times


def main() -> None:
    """Read the arguments, and run the campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.card")
    campaigns = parser.add_subparsers(required=True, dest="campaign")
    programs = campaigns.add_parser("programs", help="random programs, on a card and on the model")
    programs.add_argument("count", type=int)
    programs.add_argument("--first", type=int, default=0)
    campaigns.add_parser("costs", help="verbs beside the bare calls of the driver")
    campaigns.add_parser("waits", help="waits for a kernel of 20 us")
    campaigns.add_parser("times", help="operations, by the vendor's records and by events")
    campaigns.add_parser("samples", help="which samples run, and how the others end")
    for each in campaigns.choices.values():
        each.add_argument("--on-card", action="store_true", help="a real one, and not the simulated driver")
    chosen = parser.parse_args()
    if chosen.campaign == "samples":  # in processes of their own
        report(on_card=chosen.on_card)
        return
    if not chosen.on_card:
        switch.install(device="h200", workers=1)
    if chosen.campaign == "programs":
        count, differ = compare(range(chosen.first, chosen.first + chosen.count), "cuda:0")
        print(f"{chosen.count} programs, {count} of them without races; {differ} of these differ")
    elif chosen.campaign == "times":
        times()
    else:
        acl_py.run({"costs": costs, "waits": waits}[chosen.campaign], device="cuda:0", trace=False)


if __name__ == "__main__":
    main()
