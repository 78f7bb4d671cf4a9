"""Shows: tokens go to experts on eight cards and come back, and the card with the most tokens makes all others wait.

Scenario: each card has some tokens and two of sixteen experts. A token goes to one expert, wherever that is. Popular
experts get more, so the loads are skewed. Dispatch and return are an AlltoAllV each. Naive: both experts of a card run
one behind the other. Overlapped: each local expert has a stream of its own. In halves: half of the tokens travel while
the others are computed; that does not pay here, because the way takes little time beside the experts of the card that
has the most tokens, and the host makes twice as many calls.

All versions must give what NumPy gives for all tokens on one device.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import acl_py as acl
from acl_py import Array, Cost, In, MemcpyKind, Out

RANKS, EXPERTS, TOKENS, WIDTH, HIDDEN = 8, 16, 512, 256, 512  # TOKENS: of each card
LOCAL = EXPERTS // RANKS
TOKEN_US, LEAST_US = 2.0, 6.0  # what an expert takes for each token, and at least
SORT_US = 8.0
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


def expert(x: Floats, up: Floats, down: Floats) -> Floats:
    """One expert."""
    return np.maximum(x @ up, 0) @ down


@acl.kernel(cost=lambda x, *_: Cost(us=max(LEAST_US, TOKEN_US * x.shape[0])))
def run_expert(x: In, up: In, down: In, y: Out) -> None:
    """One expert on the tokens that have come to its card."""
    y[:] = expert(x, up, down)


@acl.kernel(cost=Cost(us=SORT_US))
def sort(x: In, order: In, y: Out) -> None:
    """Put rows into another order."""
    y[:] = x[order]


def weights(number: int) -> tuple[Floats, Floats]:
    """The two matrices of one expert."""
    chance = np.random.default_rng(number)
    return (
        chance.standard_normal((WIDTH, HIDDEN), np.float32) / np.float32(16),
        chance.standard_normal((HIDDEN, WIDTH), np.float32) / np.float32(16),
    )


def tokens(rank: int) -> tuple[Floats, Ints]:
    """The tokens of one card, and the expert of each; the first experts are the most popular."""
    chance = np.random.default_rng(100 + rank)
    odds = 1 / (2 + np.arange(EXPERTS))
    return chance.standard_normal((TOKENS, WIDTH), np.float32), chance.choice(EXPERTS, TOKENS, p=odds / odds.sum())


class Part:
    """Some tokens of all cards: who sends how many to which expert."""

    def __init__(self, rows: slice) -> None:
        self.rows = rows
        self.chosen = [tokens(rank)[1][rows] for rank in range(RANKS)]
        self.order = [np.argsort(chosen, kind="stable") for chosen in self.chosen]
        self.counts = np.array([np.bincount(chosen, minlength=EXPERTS) for chosen in self.chosen])  # rank, expert

    def to_ranks(self) -> Ints:
        """How many tokens each card sends to each card."""
        return self.counts.reshape(RANKS, RANKS, LOCAL).sum(2)

    def sorted(self, rank: int) -> tuple[Ints, list[slice]]:
        """In which order the tokens that come to a card stand by expert, and where those of each local expert are then.

        They come by the card that sent them, and by expert only within that.
        """
        here = self.counts[:, rank * LOCAL : (rank + 1) * LOCAL]
        local = np.concatenate([np.repeat(np.arange(LOCAL), counts) for counts in here])
        ends = np.cumsum(here.sum(0)).tolist()
        return np.argsort(local, kind="stable"), [slice(*each) for each in zip([0, *ends], ends, strict=False)]


class Card:
    """One card."""

    def __init__(self, rank: int, comm: acl.Communicator, lanes: int) -> None:
        self.rank = rank
        self.comm = comm
        self.lanes = lanes
        self.there: dict[int, acl.Event] = {}  # by the number of a part: its tokens are at their experts,
        self.computed: dict[int, acl.Event] = {}  # and have been through them

    async def set_up(self, parts: Sequence[Part]) -> None:
        """Bring the experts and the tokens of each part, sorted by their experts, to the card."""
        await acl.SetDevice(self.rank)
        self.travel = await acl.CreateStream(name="travel")
        self.streams = [await acl.CreateStream(name=f"expert {lane}") for lane in range(self.lanes)]
        mine = range(self.rank * LOCAL, (self.rank + 1) * LOCAL)
        self.weights = [[await self.on_card(each) for each in weights(number)] for number in mine]
        own = tokens(self.rank)[0]
        self.sent = [await self.on_card(own[part.rows][part.order[self.rank]]) for part in parts]
        orders = [part.sorted(self.rank)[0] for part in parts]
        self.orders = [await self.on_card(order) for order in orders]
        self.undone = [await self.on_card(np.argsort(order)) for order in orders]
        empty = [np.zeros((len(order), WIDTH), np.float32) for order in orders]
        self.came, self.by_expert, self.done, self.leaving = [
            [await self.on_card(each) for each in empty] for _ in range(4)
        ]
        self.back = [await self.on_card(np.zeros_like(own[part.rows])) for part in parts]

    async def on_card(self, array: npt.NDArray[Any]) -> Array:
        """A copy of *array* in memory of the card."""
        whole = np.ascontiguousarray(array)
        buffer = await acl.Malloc(whole.nbytes)
        await acl.Memcpy(buffer, whole.nbytes, whole, whole.nbytes, MemcpyKind.HOST_TO_DEVICE)
        return Array(buffer, whole.dtype, whole.shape)

    async def dispatch(self, number: int, part: Part) -> None:
        """Queue the way of the tokens to their experts."""
        await acl.SetDevice(self.rank)
        await self._exchange(self.sent[number], self.came[number], part.to_ranks())
        self.there[number] = await self._mark(self.travel)

    async def compute(self, number: int, part: Part) -> None:
        """Queue the local experts, behind the dispatch."""
        await acl.SetDevice(self.rank)
        first, *others = self.streams
        await acl.StreamWaitEvent(first, self.there[number])
        await sort[8, first](self.came[number], self.orders[number], self.by_expert[number])
        await self._behind([first], others)
        for local, rows in enumerate(part.sorted(self.rank)[1]):
            stream = self.streams[local % self.lanes]
            x, y = self.by_expert[number][rows], self.done[number][rows]
            await run_expert[8, stream](x, *self.weights[local], y)
        await self._behind(others, [first])
        await sort[8, first](self.done[number], self.undone[number], self.leaving[number])
        self.computed[number] = await self._mark(first)

    async def _mark(self, stream: acl.Stream) -> acl.Event:
        """An event behind what *stream* has."""
        event = await acl.CreateEvent()
        await acl.RecordEvent(event, stream)
        return event

    async def _behind(self, earlier: Sequence[acl.Stream], later: Sequence[acl.Stream]) -> None:
        """Put what is queued in *later* from now on behind what *earlier* has."""
        for giver in earlier:
            event = await self._mark(giver)
            for taker in later:
                await acl.StreamWaitEvent(taker, event)

    async def give_back(self, number: int, part: Part) -> None:
        """Queue the way back."""
        await acl.SetDevice(self.rank)
        await acl.StreamWaitEvent(self.travel, self.computed[number])
        await self._exchange(self.leaving[number], self.back[number], part.to_ranks().T)

    async def _exchange(self, send: Array, recv: Array, counts: Ints) -> None:
        outgoing, incoming = counts[self.rank] * WIDTH, counts[:, self.rank] * WIDTH
        await acl.AlltoAllV(
            send, outgoing.tolist(), _places(outgoing), None, recv, incoming.tolist(), _places(incoming), None,
            self.comm, self.travel,
        )  # fmt: skip

    async def result(self, parts: Sequence[Part]) -> Floats:
        """The tokens behind their experts, in their first order, on the host."""
        found = np.empty((TOKENS, WIDTH), np.float32)
        for part, back in zip(parts, self.back, strict=True):
            into = np.empty(back.shape, np.float32)
            await acl.Memcpy(into, into.nbytes, back, into.nbytes, MemcpyKind.DEVICE_TO_HOST)
            found[part.rows][part.order[self.rank]] = into
        return found


def _places(counts: Ints) -> list[int]:
    return [0, *np.cumsum(counts)[:-1].tolist()]


async def run_layer(count: int, lanes: int) -> tuple[float, list[Floats]]:
    """Run the layer with the tokens in *count* parts; return microseconds, and the tokens of each card."""
    sim = acl.current_simulation()
    size = TOKENS // count
    parts = [Part(slice(number * size, (number + 1) * size)) for number in range(count)]
    cards = [Card(rank, comm, lanes) for rank, comm in enumerate(await acl.CommInitAll(RANKS))]
    for card in cards:
        await card.set_up(parts)
    began = sim.now_ns
    for step in (Card.dispatch, Card.compute, Card.give_back):
        for number, part in enumerate(parts):
            for card in cards:
                await step(card, number, part)
    for card in cards:
        await acl.SynchronizeStream(card.travel)
    took_us = (sim.now_ns - began) / 1e3
    return took_us, [await card.result(parts) for card in cards]


def main() -> None:
    expected = []
    for rank in range(RANKS):
        x, chosen = tokens(rank)
        expected.append(np.empty_like(x))
        for number in range(EXPERTS):
            expected[rank][chosen == number] = expert(x[chosen == number], *weights(number))
    loads = Part(slice(0, TOKENS)).to_ranks().sum(0)
    print(f"{RANKS * TOKENS:,} tokens on {RANKS} cards; the cards get {', '.join(map(str, loads.tolist()))}")
    for name, parts, lanes in (("naive", 1, 1), ("a stream for each expert", 1, LOCAL), ("and in halves", 2, LOCAL)):
        took_us, found = acl.run(run_layer, parts, lanes, device="h200")
        worst = max(float(np.abs(have - want).max()) for have, want in zip(found, expected, strict=True))
        assert worst < 1e-4, f"a token is {worst} away from what one device computes"
        print(f"  {name:<24}  {took_us:>8,.1f} us")


if __name__ == "__main__":
    main()
