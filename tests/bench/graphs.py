"""How close captures, graphs and managed memory come to those of the card: codes, calls, makespans, costs by nodes."""

from collections import Counter
from statistics import median

from tests.bench.measure import say, show
from tests.conformance.criteria import (
    distribution,
    far_calls,
    is_capture,
    is_near,
    makespan_error,
    measured,
    replayed,
    wrong_codes,
)
from tests.conformance.graph_costs import CALLS, chains, costs, errors, rows

SETS = ("graphs", "managed", "semantics")
CALL_US = 2  # shorter calls are not compared
CHAINS = (1, 10, 500)
MANY = 1000  # calls of one program, nearly all of one kind


def main():
    documents = [
        (name, document) for name in SETS for document in measured(name) if name != "semantics" or is_capture(document)
    ]
    _programs(documents)
    _calls(documents)
    _chains()
    _nodes()


def compared(document):
    """The calls of a measured program that count: those of 2 us and more."""
    return [card for card in document["observed"]["host"] if card["cost_us"] >= CALL_US]


def _programs(documents):
    table, totals = [], Counter()
    for name, document in documents:
        ours = replayed(name, document["id"])
        calls, far, codes = len(compared(document)), far_calls(document, ours, CALL_US), wrong_codes(document, ours)
        off = makespan_error(document, ours)
        totals.update(calls=calls, far=len(far), codes=len(codes), off=abs(off) > 10, programs=1)
        if calls < MANY:
            totals.update(few=calls, few_far=len(far))
        card_us = document["observed"]["makespan_us"]
        table.append(
            (
                name,
                document["id"],
                len(codes),
                calls,
                len(far),
                f"{card_us:,.1f}",
                f"{ours.makespan_us:,.1f}",
                f"{off:+.1f}",
            )
        )
    header = ("set", "program", "wrong codes", "calls", "far", "card us", "ours us", "error %")
    show("Programs: calls of 2 us and more, and makespans", header, table)
    near = totals["calls"] - totals["far"]
    say(f"{totals['codes']} wrong codes.")
    say(f"{near} of {totals['calls']} calls are within 30 % (20 us and more), or within 40 % or 1.5 us.")
    near = totals["few"] - totals["few_far"]
    say(f"Without the program that makes {MANY} and more: {near} of {totals['few']}.")
    say(f"{totals['programs'] - totals['off']} of {totals['programs']} makespans are within 10 %.\n")


def _calls(documents):
    """The same by kind of call, with what the far ones took."""
    counts, far = Counter(), {}
    for name, document in documents:
        ours = replayed(name, document["id"])
        for card in compared(document):
            op, call = document["steps"][card["step"]]["op"], ours.host[card["step"]]
            counts[op] += 1
            took = call.exit_us - call.enter_us
            if not is_near(card["cost_us"], took):
                far.setdefault(op, []).append(f"{card['cost_us']:.0f}/{took:.0f}")
    table = [(op, counts[op], len(each), ", ".join(each[:9])) for op, each in sorted(far.items())]
    show("Calls that are far, by kind", ("call", "number", "far", "card/ours, us"), table)


def _chains():
    """What the calls about a chain of kernels took, by its length."""
    table = []
    for nodes in CHAINS:
        [document] = [each for each in measured("graphs") if each["id"] == f"graph-cost-chain-{nodes}"]
        ours = replayed("graphs", document["id"])
        for op in ("instantiate", "upload", "graph_launch", "exec_update"):
            both = [
                (card["cost_us"], ours.host[card["step"]].exit_us - ours.host[card["step"]].enter_us)
                for card in document["observed"]["host"]
                if document["steps"][card["step"]]["op"] == op
            ]
            for place, (card_us, our_us) in enumerate(both):
                table.append(
                    (
                        nodes,
                        f"{op} {place + 1}",
                        f"{card_us:.2f}",
                        f"{our_us:.2f}",
                        f"{100 * (our_us / card_us - 1):+.0f}",
                    )
                )
    show("Chains of kernels, fitted", ("nodes", "call", "card us", "ours us", "error %"), table)


def _nodes():
    """The model's sums against rows of another host, with its curves of kernels (tests/conformance/graph_costs.py)."""
    graphs, groups = costs(), {("kernel", "chain, odd positions"): chains()[1::2]}
    for row in rows():
        if (row["kind"], row["shape"]) != ("kernel", "chain"):
            groups.setdefault((row["kind"], row["shape"]), []).append(row)
    table = []
    for group, chosen in groups.items():
        cells = []
        for call in CALLS:
            _, p90, _ = distribution(errors(chosen, call, graphs))
            cells.append(f"{median(errors(chosen, call, graphs)):+.0f}, {p90:.0f}")
        table.append((*group, len(chosen), *cells))
    show(
        "By kind and shape, another host: error in %, median and 90th percentile",
        ("kind", "shape", "rows", *CALLS),
        table,
    )
