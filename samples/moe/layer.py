"""A mixture-of-experts layer in plain NumPy, without a device: the reference for the results.

A gate chooses *top_k* experts for each token, and a weight for each of them. The token's output is the weighted mixture
of the outputs of its experts. An expert takes at most as many tokens as its capacity: first choices come before second
ones, earlier tokens before later ones, and the remaining choices are dropped. Without a capacity, none is (dropless).
"""

from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).parent
HELD_OUT = slice(0, None, 3)  # the digits that no expert was trained on

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Layer:
    """The weights: *gate* (width, experts), *up* (experts, width, hidden), *down* (experts, hidden, outputs)."""

    gate: Floats
    up: Floats
    down: Floats
    top_k: int = 2

    @property
    def experts(self) -> int:
        return len(self.up)

    def capacity(self, tokens: int, factor: float) -> int:
        """Return the rows for each expert: *factor* times the share of an even spread of *tokens*."""
        return max(1, ceil(factor * tokens * self.top_k / self.experts))


def forward(layer: Layer, tokens: Floats, capacity: int | None = None) -> Floats:
    """Return the output of *layer* for *tokens* (tokens, width)."""
    scores = tokens @ layer.gate
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    chosen = np.argsort(-odds, axis=1, kind="stable")[:, : layer.top_k]
    weights = np.take_along_axis(odds, chosen, axis=1)
    weights /= weights.sum(axis=1, keepdims=True)
    output = np.zeros((len(tokens), layer.down.shape[2]), np.float32)
    room = [len(tokens) * layer.top_k if capacity is None else capacity] * layer.experts
    for rank in range(layer.top_k):
        for expert in range(layer.experts):
            kept = np.flatnonzero(chosen[:, rank] == expert)[: room[expert]]
            room[expert] -= len(kept)
            hidden = np.maximum(tokens[kept] @ layer.up[expert], 0)
            output[kept] += weights[kept, rank, None] * (hidden @ layer.down[expert])
    return output


def digits() -> tuple[Floats, npt.NDArray[np.uint8]]:
    """Return the images of the digits as tokens of 64 numbers, and the digits that they show."""
    with np.load(HERE / "digits.npz") as data:
        return data["images"].astype(np.float32) / 16, data["labels"]


def trained() -> Layer:
    """Return the layer that train.py made. The largest of its ten outputs is the digit of a token."""
    with np.load(HERE / "experts.npz") as data:
        return Layer(*(data[name].astype(np.float32) for name in ("gate", "up", "down")))


def random_layer(rng: np.random.Generator, width: int, hidden: int, outputs: int, experts: int, top_k: int) -> Layer:
    """Return a layer with random weights that keep numbers near one."""

    def weights(*shape: int) -> Floats:
        return (rng.standard_normal(shape) / np.sqrt(shape[-2])).astype(np.float32)

    gate, up, down = weights(width, experts), weights(experts, width, hidden), weights(experts, hidden, outputs)
    return Layer(gate, up, down, top_k)
