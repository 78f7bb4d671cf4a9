"""This script made experts.npz: the layer's weights, trained on two thirds of the digits with NumPy alone.

`python samples/moe/train.py` takes some seconds. Every third digit is held out, to measure the accuracy. The loss is
cross-entropy plus the usual small penalty of mixtures of experts, which keeps the gate from always choosing the same
experts.
"""

import numpy as np
from layer import HELD_OUT, HERE, Floats, Layer, digits, forward

EXPERTS, HIDDEN, CLASSES, TOP_K = 8, 32, 10, 2
STEPS, BATCH, RATE, BALANCE = 2_000, 128, 3e-3, 1e-2


def softmax(x: Floats) -> Floats:
    odds = np.exp(x - x.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


def gradients(gate: Floats, up: Floats, down: Floats, x: Floats, labels: np.ndarray) -> list[Floats]:
    """Return the gradients of the loss for one batch. Each expert sees all tokens; the gate's mask selects them."""
    count = len(x)
    odds = softmax(x @ gate)
    mask = odds >= np.sort(odds, axis=1)[:, -TOP_K, None]
    kept = odds * mask
    weights = kept / kept.sum(axis=1, keepdims=True)
    hidden = np.maximum(np.einsum("td,edh->eth", x, up), 0)
    results = hidden @ down
    error = softmax(np.einsum("te,eto->to", weights, results))
    error[np.arange(count), labels] -= 1
    error /= count

    to_results = weights.T[:, :, None] * error
    to_hidden = (to_results @ down.transpose(0, 2, 1)) * (hidden > 0)
    to_weights = np.einsum("to,eto->te", error, results)
    to_scores = weights * (to_weights - (weights * to_weights).sum(axis=1, keepdims=True))
    usual = mask.mean(axis=0) * EXPERTS / count  # the share of the tokens that each expert gets
    to_scores += BALANCE * odds * (usual - (odds * usual).sum(axis=1, keepdims=True))
    return [x.T @ to_scores, np.einsum("td,eth->edh", x, to_hidden), hidden.transpose(0, 2, 1) @ to_results]


def train(x: Floats, labels: np.ndarray) -> Layer:
    """Train with Adam, from random weights."""
    rng = np.random.default_rng(0)
    shapes = (x.shape[1], EXPERTS), (EXPERTS, x.shape[1], HIDDEN), (EXPERTS, HIDDEN, CLASSES)
    weights = [rng.standard_normal(shape) / np.sqrt(shape[-2]) for shape in shapes]
    means, squares = ([np.zeros(shape) for shape in shapes] for _ in range(2))
    for step in range(1, STEPS + 1):
        batch = rng.integers(0, len(x), BATCH)
        for i, gradient in enumerate(gradients(*weights, x[batch], labels[batch])):
            means[i] += 0.1 * (gradient - means[i])
            squares[i] += 0.001 * (gradient**2 - squares[i])
            mean, square = means[i] / (1 - 0.9**step), squares[i] / (1 - 0.999**step)
            weights[i] -= RATE * mean / (np.sqrt(square) + 1e-8)
    return Layer(*(w.astype(np.float16).astype(np.float32) for w in weights), TOP_K)


if __name__ == "__main__":
    tokens, labels = digits()
    seen = np.ones(len(tokens), bool)
    seen[HELD_OUT] = False
    layer = train(tokens[seen], labels[seen])
    for name, part in (("seen", seen), ("held out", ~seen)):
        print(f"{name:9} {np.mean(forward(layer, tokens[part]).argmax(axis=1) == labels[part]):.4f}")
    halves = {name: getattr(layer, name).astype(np.float16) for name in ("gate", "up", "down")}
    np.savez_compressed(HERE / "experts.npz", **halves)
