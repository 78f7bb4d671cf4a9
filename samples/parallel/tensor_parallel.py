"""Shows: one layer over four cards, which add up their shares twice; in halves, one half adds while the other computes.

Scenario: a layer of attention and a layer of two matrices are too slow on one card. Each card has a quarter of the
heads and of the columns, and what it computes is a share of a sum. Naive: an AllReduce behind each of the two. Split:
the tokens come in two halves, so that the shares of one are summed while the cards compute the other. Scattered: a
ReduceScatter and an AllGather in place of each AllReduce; between the two each card has a quarter of the tokens, where
work for each token by itself, here the residual, is done once and not on every card.

All versions must compute what NumPy does with the whole layer.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

import acl_py as acl
from acl_py import Array, Cost, In, InOut, MemcpyKind, Out, ReduceOp

RANKS, TOKENS, WIDTH, HEADS, HIDDEN = 4, 1024, 1024, 8, 2048
ATTENTION_US, MLP_US, RESIDUAL_US = 260.0, 320.0, 24.0  # for all tokens: a share on one card; the residual is whole
Floats = npt.NDArray[np.float32]


def attention(x: Floats, qkv: Sequence[Floats], out: Floats) -> Floats:
    """The heads whose columns *qkv* has, over blocks of 64 tokens, and their share of the output."""
    q, k, v = (np.reshape(x @ weight, (-1, 64, weight.shape[1] // (WIDTH // HEADS), WIDTH // HEADS)) for weight in qkv)
    scores = np.einsum("bihd,bjhd->bhij", q, k) / np.float32(np.sqrt(WIDTH // HEADS))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("bhij,bjhd->bihd", weights, v).reshape(len(x), -1) @ out


def mlp(x: Floats, up: Floats, down: Floats) -> Floats:
    """The columns that *up* has, and their share of the output."""
    return np.maximum(x @ up, 0) @ down


def _cost(us: float) -> Callable[..., Cost]:
    return lambda x, *_: Cost(us=us * x.shape[0] / TOKENS)


@acl.kernel(cost=_cost(ATTENTION_US))
def attend(x: In, q: In, k: In, v: In, out: In, share: Out) -> None:
    """Attention of this card's heads."""
    share[:] = attention(x, (q, k, v), out)


@acl.kernel(cost=_cost(MLP_US))
def feed(x: In, up: In, down: In, share: Out) -> None:
    """This card's columns of the two matrices."""
    share[:] = mlp(x, up, down)


@acl.kernel(cost=_cost(RESIDUAL_US))
def add(x: InOut, total: In) -> None:
    """The residual."""
    x += total


def weights() -> dict[str, Floats]:
    """The weights of the whole layer."""
    chance = np.random.default_rng(7)
    shapes = {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "out": (WIDTH, WIDTH)}
    shapes |= {"up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH)}
    return {name: chance.standard_normal(shape, np.float32) / np.float32(32) for name, shape in shapes.items()}


def tokens() -> Floats:
    """The tokens."""
    return np.random.default_rng(8).standard_normal((TOKENS, WIDTH), np.float32)


class Card:
    """One card with its shares of the weights."""

    def __init__(self, rank: int, comm: acl.Communicator) -> None:
        self.rank = rank
        self.comm = comm
        self.there: dict[int, acl.Event] = {}  # by their first one: tokens that are behind a layer on all cards

    async def set_up(self) -> None:
        """Bring the tokens and this card's shares of the weights to the card."""
        await acl.SetDevice(self.rank)
        self.compute, self.talk = await acl.CreateStream(name="compute"), await acl.CreateStream(name="talk")
        self.x, self.share = await self.on_card(tokens()), await self.on_card(np.zeros((TOKENS, WIDTH), np.float32))
        self.total = await self.on_card(np.zeros((TOKENS, WIDTH), np.float32))
        self.weights = {
            name: await self.on_card(np.split(whole, RANKS, axis=0 if name in ("out", "down") else 1)[self.rank])
            for name, whole in weights().items()
        }

    async def on_card(self, array: Floats) -> Array:
        """A copy of *array* in memory of the card."""
        whole = np.ascontiguousarray(array)
        buffer = await acl.Malloc(whole.nbytes)
        await acl.Memcpy(buffer, whole.nbytes, whole, whole.nbytes, MemcpyKind.HOST_TO_DEVICE)
        return Array(buffer, np.float32, whole.shape)

    async def share_of(self, kernel: str, rows: slice) -> None:
        """Queue this card's share of attention, or of the two matrices, for some tokens, once they are there."""
        await acl.SetDevice(self.rank)
        if rows.start in self.there:
            await acl.StreamWaitEvent(self.compute, self.there[rows.start])
        w, x, share = self.weights, self.x[rows], self.share[rows]
        if kernel == "attention":
            await attend[132, self.compute](x, w["q"], w["k"], w["v"], w["out"], share)
        else:
            await feed[132, self.compute](x, w["up"], w["down"], share)

    async def mark(self, stream: acl.Stream) -> acl.Event:
        """An event behind what *stream* has."""
        event = await acl.CreateEvent()
        await acl.RecordEvent(event, stream)
        return event

    async def reduce(self, rows: slice) -> None:
        """Queue the sum of the shares and the residual, on all tokens of *rows*."""
        await acl.StreamWaitEvent(self.talk, await self.mark(self.compute))
        share, total = self.share[rows], self.total[rows]
        await acl.AllReduce(share, total, None, None, ReduceOp.SUM, self.comm, self.talk)
        await add[132, self.talk](self.x[rows], total)
        self.there[rows.start] = await self.mark(self.talk)

    async def scatter(self, rows: slice) -> None:
        """Queue the sum of the shares, each card its part of the tokens, the residual there, and the gathering."""
        await acl.StreamWaitEvent(self.talk, await self.mark(self.compute))
        x, size = self.x[rows], (rows.stop - rows.start) // RANKS
        mine = slice(self.rank * size, (self.rank + 1) * size)
        total = self.total[rows][mine]
        await acl.ReduceScatter(self.share[rows], total, None, None, ReduceOp.SUM, self.comm, self.talk)
        await add[132, self.talk](x[mine], total)
        await acl.AllGather(x[mine], x, None, None, self.comm, self.talk)
        self.there[rows.start] = await self.mark(self.talk)

    async def result(self) -> Floats:
        """The tokens behind the layer, on the host."""
        into = np.empty((TOKENS, WIDTH), np.float32)
        await acl.Memcpy(into, into.nbytes, self.x, into.nbytes, MemcpyKind.DEVICE_TO_HOST)
        return into


async def run_layer(parts: int, is_scattered: bool) -> tuple[float, list[Floats]]:
    """Run the layer with the tokens in so many parts; return microseconds and the tokens of each card."""
    sim = acl.current_simulation()
    cards = [Card(rank, comm) for rank, comm in enumerate(await acl.CommInitAll(RANKS))]
    for card in cards:
        await card.set_up()
    began, size = sim.now_ns, TOKENS // parts
    for kernel in ("attention", "mlp"):
        for part in range(parts):
            rows = slice(part * size, (part + 1) * size)
            for card in cards:
                await card.share_of(kernel, rows)
                await (card.scatter if is_scattered else card.reduce)(rows)
    for card in cards:
        await acl.SynchronizeStream(card.talk)
    took_us = (sim.now_ns - began) / 1e3
    return took_us, [await card.result() for card in cards]


def main() -> None:
    whole, x = weights(), tokens()
    x = x + attention(x, (whole["q"], whole["k"], whole["v"]), whole["out"])
    x = x + mlp(x, whole["up"], whole["down"])
    print(f"one layer of {TOKENS} tokens of width {WIDTH}, on {RANKS} cards")
    for name, parts, is_scattered in (
        ("naive", 1, False), ("split into two halves", 2, False), ("scattered", 1, True), ("scattered halves", 2, True),
    ):  # fmt: skip
        took_us, found = acl.run(run_layer, parts, is_scattered, device="h200")
        assert all(np.array_equal(each, found[0]) for each in found), "the cards differ"
        worst = float(np.abs(found[0] - x).max())
        assert worst < 1e-3, f"the cards are {worst} away from one card"
        print(f"  {name:<22}  {took_us:>8,.1f} us")


if __name__ == "__main__":
    main()
