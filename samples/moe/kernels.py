"""The layer's kernels. Their cost follows from their work, so kernels that run side by side share the cores.

A launch is priced by the shapes of its arguments: rows that no token fills cost as much as others. It moves the bytes
of its arguments, unless it says that it reads only some of them.
"""

import numpy as np

import acl_py as acl
from acl_py import Cost, In, Out

ALL, ONE = 36, 12  # blocks for all tokens, and for those of one expert: 36 + 8 x 12 fill the 132 cores of an H200


@acl.kernel(cost=Cost(flops=lambda tokens, weights, *_: 2 * tokens.size * weights.shape[1]))
def gate(tokens: In, weights: In, chosen: Out, share: Out):
    """Choose the experts of each token, best first, and the *share* of each of them in the output."""
    scores = tokens @ weights
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    chosen[:] = np.argsort(-odds, axis=1, kind="stable")[:, : chosen.shape[1]]
    best = np.take_along_axis(odds, chosen, axis=1)
    share[:] = best / best.sum(axis=1, keepdims=True)


@acl.kernel
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


@acl.kernel(cost=Cost(bytes=lambda _tokens, _source, rows: 2 * rows.nbytes))
def dispatch(tokens: In, source: In, rows: Out):
    """Gather the tokens of one expert, or of all of them; rows without a token are zero."""
    rows[:] = np.where(source[..., None] >= 0, tokens[source], 0)


@acl.kernel(cost=Cost(flops=lambda rows, up, down, _: 2 * len(rows) * (up.size + down.size)))
def feed_forward(rows: In, up: In, down: In, results: Out):
    """One expert."""
    np.matmul(np.maximum(rows @ up, 0), down, out=results)


@acl.kernel(cost=Cost(bytes=lambda _results, chosen, _row, _share, output: (chosen.shape[1] + 1) * output.nbytes))
def combine(results: In, chosen: In, row: In, share: In, output: Out):
    """Mix the *results* of each token's experts; a choice that was dropped adds nothing."""
    found = np.where(row[..., None] >= 0, results[chosen, row], 0)
    output[:] = np.einsum("tk,tko->to", share, found)
