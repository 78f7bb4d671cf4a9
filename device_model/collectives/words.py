"""Collectives that never take place, in words: what each rank has called, and the first call that does not fit."""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from device_model.collectives.cliques import Clique, Communicator, Mismatch
    from device_model.collectives.exchanges import Exchange
    from device_model.collectives.parts import Part
    from device_model.ops import Op


def lines(clique: "Clique") -> Iterator[str]:
    """Yield a line for each rank of *clique*, and one that names the first mismatch, if there is one."""
    yield f"{clique.name}, {len(clique)} ranks:"
    for rank in clique.ranks:
        yield f"  rank {rank.index} on device {rank.device.ordinal} {_doing(rank)}"
    mismatch = clique.mismatch()
    if mismatch is not None:
        yield f"  first mismatch: {mismatch_text(mismatch)}"


def remedy(cliques: "Collection[Clique]") -> str:
    """Return what would break a hang of *cliques*; "" if there are none."""
    for clique in cliques:
        mismatch = clique.mismatch()
        if mismatch is not None:
            exchange, first, seats = mismatch
            if len(exchange.key) > 1:
                return f"let {_other_side(mismatch)}"
            return f"let {_ranks(exchange, seats)} make the same call as rank {exchange.ranks[first]}"
    if cliques:
        return "let all ranks make their collectives in the same order, or take a stream for each communicator"
    return ""


def _other_side(mismatch: "Mismatch") -> str:
    exchange, first, _ = mismatch
    other, call = 1 - first, exchange.calls[first]
    return f"rank {exchange.ranks[other]} call {('Send()', 'Recv()')[other]} with what fits {call}"


def _doing(rank: "Communicator") -> str:
    """Say in which call *rank* waits, or what it has queued last."""
    if rank.destroyed is not None:
        return f"was destroyed at {rank.destroyed}"
    ops = [op for each in rank.clique.exchanges.values() for op in each.ops if op is not None and not op.done]
    unfinished = [(part, op) for part, op in ((cast("Part", op.work), op) for op in ops) if part.rank is rank]
    # One at most has had its turn, and that is the first one: parts of a rank run in their order.
    part, op = min(unfinished, key=lambda each: (each[1].start_ns < 0, each[1].queued_ns), default=(None, None))
    if part is None or op is None:
        if rank.last is None:
            return "has called nothing"
        return f"has called nothing behind {_called(rank.last, cast('Op', rank.tail))}"
    if op.start_ns >= 0:
        return f"waits in {_called(part, op)}"
    return f"has queued {_called(part, op)}, which has not had its turn"


def _called(part: "Part", op: "Op") -> str:
    """Return what *part*, the work of *op*, calls, and where."""
    calls = [call.text(exchange.number) for call, (exchange, _) in zip(part.calls, part.seats, strict=True)]
    more = f" and {len(calls) - 2} more" if len(calls) > 2 else ""
    return f"{' and '.join(calls[:2])}{more}{_place(op)}"


def _place(op: "Op | None") -> str:
    """Return the line that queued *op*, in parentheses."""
    return "" if op is None or op.site is None else f" ({op.site})"


def mismatch_text(mismatch: "Mismatch") -> str:
    """Say which rank has called what, and which one has not, or otherwise."""
    exchange, first, seats = mismatch
    call, number = exchange.calls[first], exchange.number
    what = "" if call is None else call.text(number)
    rank, place = exchange.ranks[first], _place(exchange.ops[first])
    missing = [seat for seat in seats if exchange.calls[seat] is None]
    if missing:
        return f"rank {rank} has called {what}{place}, and {_ranks(exchange, missing)} not"
    other = exchange.calls[seats[0]]
    what_else = "" if other is None else other.text(number)
    return (
        f"rank {rank} has called {what}{place}, and rank {exchange.ranks[seats[0]]} "
        f"{what_else}{_place(exchange.ops[seats[0]])}"
    )


def _ranks(exchange: "Exchange", seats: Collection[int]) -> str:
    ranks = [str(exchange.ranks[seat]) for seat in seats]
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(ranks[:-1])} and {ranks[-1]}"
