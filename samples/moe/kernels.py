"""The layer's kernels. Each costs what the card's library takes for such a call, by the shapes of its arguments.

Rows that no token fills cost as much as others. A launch of few blocks gets few SMs, so kernels of experts that run
side by side share the device.
"""

import numpy as np

import acl_py as acl
from acl_py import Cost, In, Out

ALL, ONE = 36, 12  # blocks for all tokens, and for those of one expert: 36 + 8 x 12 fill the 132 SMs of an H200


@acl.kernel(cost=lambda tokens, weights, *_: Cost.matmul(len(tokens), weights.shape[1], len(weights), "float32"))
def gate(tokens: In, weights: In, chosen: Out, share: Out):
    """Choose the experts of each token, best first, and the *share* of each of them in the output."""
    scores = tokens @ weights
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    chosen[:] = np.argsort(-odds, axis=1, kind="stable")[:, : chosen.shape[1]]
    best = np.take_along_axis(odds, chosen, axis=1)
    share[:] = best / best.sum(axis=1, keepdims=True)


@acl.kernel(cost=lambda chosen, _row, source, _count: Cost.reduction(chosen.size * len(source), "int32"))
def route(chosen: In, row: Out, source: Out, count: Out):
    """Give each choice a *row* of its expert, or -1 if all are taken; note the *source* token of each row."""
    tokens, top_k = chosen.shape
    experts, rows = source.shape
    wanted = chosen.T.ravel()  # first choices first
    is_wanted = wanted[:, None] == np.arange(experts)
    place = np.take_along_axis(is_wanted.cumsum(axis=0) - 1, wanted[:, None], axis=1)[:, 0]
    fits = place < rows
    row[:] = np.where(fits, place, -1).reshape(top_k, tokens).T
    source[:] = -1
    source[wanted[fits], place[fits]] = np.tile(np.arange(tokens), top_k)[fits]
    count[:] = np.minimum(is_wanted.sum(axis=0), rows)


@acl.kernel(cost=lambda tokens, source, _: Cost.gather(max(source.size, 1), tokens.shape[1], "float32"))
def dispatch(tokens: In, source: In, rows: Out):
    """Gather the tokens of one expert, or of all of them; rows without a token are zero."""
    rows[:] = np.where(source[..., None] >= 0, tokens[source], 0)


def of_expert(rows, up, down, _):
    """Return the cost of two products, one behind the other: that of one as deep as both."""
    (width, hidden), outputs = up.shape, down.shape[1]
    return Cost.matmul(max(len(rows), 1), hidden, width + outputs, "float32")


@acl.kernel(cost=of_expert)
def feed_forward(rows: In, up: In, down: In, results: Out):
    """One expert."""
    np.matmul(np.maximum(rows @ up, 0), down, out=results)


@acl.kernel(
    cost=lambda _results, chosen, _row, _share, output: Cost.gather(chosen.size, output.shape[1], "float32"),
)
def combine(results: In, chosen: In, row: In, share: In, output: Out):
    """Mix the *results* of each token's experts; a choice that was dropped adds nothing."""
    found = np.where(row[..., None] >= 0, results[chosen, row], 0)
    output[:] = np.einsum("tk,tko->to", share, found)
