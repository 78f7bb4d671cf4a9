"""Campaigns: `python -m tests.card programs COUNT` and others; with --on-card on a real card.

The others are `conformance`, `timelines`, `costs`, `waits`, `times`, `samples` and `notebooks`.
"""

import argparse
import sys

import acl_py
import acl_py.compat.acl
from acl_py.compat import cuda as switch
from tests.card import acl_programs, acl_timelines
from tests.card.conformance import conformance
from tests.card.costs import costs, waits
from tests.card.own_card import show
from tests.card.programs import calm, compare, drawn, queued
from tests.card.samples import report
from tests.card.timelines import compare_timelines
from tests.card.times import times


def main() -> None:
    """Read the arguments, and run the campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.card")
    campaigns = parser.add_subparsers(required=True, dest="campaign")
    programs = campaigns.add_parser("programs", help="random programs, on a card and on the model")
    programs.add_argument("count", type=int)
    programs.add_argument("--first", type=int, default=0)
    programs.add_argument(
        "--graphs", action="store_true", help="with captures, and graphs that are launched and changed"
    )
    programs.add_argument(
        "--operations", action="store_true", help="with graphs, and each stream, of acl each engine, has done the same"
    )
    for each in (programs, campaigns.add_parser("timelines", help="of random programs, on the model and as a card")):
        each.add_argument("--through", choices=("cuda", "acl"), default="cuda", help="the simulated vendor")
    recorded = campaigns.add_parser("conformance", help="the programs that were measured on a card")
    recorded.add_argument("--only", help="the id of one program")
    campaigns.add_parser("costs", help="verbs beside the bare calls of the driver")
    campaigns.add_parser("waits", help="waits for a kernel of 20 us")
    campaigns.add_parser("times", help="operations, by the vendor's records and by events")
    campaigns.add_parser("samples", help="which samples run, and how the others end")
    campaigns.add_parser("notebooks", help="the programs for a card; what one prints is written into the notebooks")
    campaigns.choices["timelines"].add_argument("count", type=int)
    for name, each in campaigns.choices.items():
        if name != "timelines":
            each.add_argument("--on-card", action="store_true", help="a real one, and not the simulated driver")
    chosen = parser.parse_args()
    if chosen.campaign == "timelines":
        play = {"cuda": compare_timelines, "acl": acl_timelines.compare_timelines}[chosen.through]
        print(f"{chosen.count} programs; the timelines of {play(range(chosen.count))} differ")
        return
    if chosen.campaign == "programs" and chosen.through == "acl":
        through_acl(range(chosen.first, chosen.first + chosen.count), engines=chosen.operations, on_card=chosen.on_card)
        return
    if chosen.campaign in ("samples", "notebooks"):  # in processes of their own
        {"samples": report, "notebooks": show}[chosen.campaign](on_card=chosen.on_card)
        return
    if not chosen.on_card:
        switch.install(device="h200", workers=1)
    if chosen.campaign == "programs":
        write = queued if chosen.operations else drawn if chosen.graphs else calm
        seeds = range(chosen.first, chosen.first + chosen.count)
        count, differ = compare(seeds, "cuda:0", write, operations=chosen.operations)
        print(f"{chosen.count} programs, {count} of them without races; {differ} of these differ")
    elif chosen.campaign == "conformance":
        sys.exit(conformance(is_real=chosen.on_card, only=chosen.only) > 0)
    elif chosen.campaign == "times":
        times()
    else:
        acl_py.run({"costs": costs, "waits": waits}[chosen.campaign], device="cuda:0", trace=False)


def through_acl(seeds: range, *, engines: bool, on_card: bool) -> None:
    """Play programs through pyACL."""
    if not on_card:
        acl_py.compat.acl.install(device=acl_programs.CARD, workers=1)
    write = acl_programs.on_engines if engines else acl_programs.written
    count, differ = acl_programs.compare(seeds, write, engines=engines)
    print(f"{len(seeds)} programs, {count} of them without races; {differ} of these differ")


if __name__ == "__main__":
    main()
