"""Shows: gradients of several cards are summed while the next layer computes; buckets are the reason that it pays.

Scenario: four cards train one network, each on a quarter of the batch. Backwards, the last layer has its gradients
first. Naive: all gradients are summed over the cards when all are there. Overlapped: a bucket of gradients is summed in
a stream of its own as soon as its layers are over, while the layers before them still compute.

Each run computes real gradients, and all four cards must end with those of one card that has the whole batch.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

import acl_py as acl
from acl_py import Array, Cost, In, MemcpyKind, Out, ReduceOp

RANKS, LAYERS, WIDTH, BATCH = 4, 8, 1024, 64
LAYER_US = 150.0  # backwards through one layer, on a quarter of the batch
Floats = npt.NDArray[np.float32]


@acl.kernel(cost=Cost(us=LAYER_US))
def backward(x: In, error: In, gradient: Out) -> None:
    """The gradient of one layer's weights for this card's part of the batch."""
    np.matmul(x.T, error, out=gradient)


def inputs(layer: int) -> tuple[Floats, Floats]:
    """The inputs and the errors of one layer, for the whole batch; whole numbers, so that sums are exact."""
    chance = np.random.default_rng(layer)
    x, error = (chance.integers(-4, 5, (BATCH, WIDTH)).astype(np.float32) for _ in range(2))
    return x, error


class Card:
    """One card: its part of the inputs, its gradients, and what is queued on it."""

    def __init__(self, rank: int, comm: acl.Communicator) -> None:
        self.rank = rank
        self.comm = comm

    async def set_up(self) -> None:
        """Bring the inputs to the card."""
        await acl.SetDevice(self.rank)
        self.compute, self.reduce = await acl.CreateStream(name="compute"), await acl.CreateStream(name="reduce")
        # One piece of memory for all gradients, so that a bucket of neighbours is one call.
        self.gradients = Array(await acl.Malloc(4 * LAYERS * WIDTH * WIDTH), np.float32, (LAYERS, WIDTH, WIDTH))
        self.inputs = [[await self._on_card(whole) for whole in inputs(layer)] for layer in range(LAYERS)]

    async def _on_card(self, whole: Floats) -> Array:
        part = np.split(whole, RANKS)[self.rank]
        buffer = await acl.Malloc(part.nbytes)
        await acl.Memcpy(buffer, part.nbytes, part, part.nbytes, MemcpyKind.HOST_TO_DEVICE)
        return Array(buffer, np.float32, part.shape)

    async def backward(self, layer: int) -> None:
        """Queue the way backwards through one layer."""
        await acl.SetDevice(self.rank)
        x, error = self.inputs[layer]
        await backward[132, self.compute](x, error, self.gradients[layer])

    async def sum_bucket(self, layers: slice) -> None:
        """Queue the sum of the gradients of *layers* over all cards, behind the kernels so far."""
        ready = await acl.CreateEvent()
        await acl.RecordEvent(ready, self.compute)
        await acl.StreamWaitEvent(self.reduce, ready)
        bucket = self.gradients[layers]
        await acl.AllReduce(bucket, bucket, None, None, ReduceOp.SUM, self.comm, self.reduce)

    async def result(self) -> Floats:
        """The gradients, on the host."""
        into = np.empty((LAYERS, WIDTH, WIDTH), np.float32)
        await acl.Memcpy(into, into.nbytes, self.gradients, into.nbytes, MemcpyKind.DEVICE_TO_HOST)
        return into


async def train(layers_in_bucket: int) -> tuple[float, Sequence[Floats]]:
    """Make one step on all cards; return how long it took, in microseconds, and the gradients of each card."""
    sim = acl.current_simulation()
    cards = [Card(rank, comm) for rank, comm in enumerate(await acl.CommInitAll(RANKS))]
    for card in cards:
        await card.set_up()
    began = sim.now_ns
    for layer in reversed(range(LAYERS)):
        for card in cards:
            await card.backward(layer)
            if layer % layers_in_bucket == 0:
                await card.sum_bucket(slice(layer, layer + layers_in_bucket))
    for card in cards:
        await acl.SynchronizeStream(card.reduce)
    took_us = (sim.now_ns - began) / 1e3
    return took_us, [await card.result() for card in cards]


def main() -> None:
    expected = np.stack([x.T @ error for x, error in map(inputs, range(LAYERS))])
    print(f"{RANKS} cards, {LAYERS} layers of {WIDTH * WIDTH * 4 >> 20} MiB of gradients")
    for name, layers in (("naive: one bucket of all", LAYERS), ("buckets of two layers", 2), ("a bucket for each", 1)):
        took_us, found = acl.run(train, layers, device="h200")
        assert all(np.array_equal(each, expected) for each in found), "the cards have other gradients than one card"
        print(f"  {name:<24}  {took_us:>8,.1f} us")


if __name__ == "__main__":
    main()
