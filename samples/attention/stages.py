"""The five stages of attention on the device, as a program in C launches them and as torch does.

From C each stage is one kernel, which reads and writes the layout that the next stage needs. torch multiplies matrices
by its library and copies between layouts, so its stages have ten kernels. `Cost.matmul` and the others say what the
library takes for them. Between its calls torch works on the host: it makes views of tensors and changes the current
stream.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import acl_py as acl
from acl_py import Array, Cost, In, InOut, Out

BLOCKS = 132  # one for each core of an H200

VIEW_US = 2.3  # measured: a view, a slice or a transposed view of a tensor (torch 2.11, Python 3.12)
STREAM_US = 12  # measured: `with torch.cuda.stream(...)`, 9.3 on one host and 15.6 on another


class Stage(NamedTuple):
    """The kernels of a stage with their arguments, and what the host does before it launches them."""

    kernels: tuple[tuple[Any, tuple[Any, ...]], ...]
    host_us: float = 0


class Frame(NamedTuple):
    """Who makes the calls."""

    stages: Callable[..., tuple[Stage, ...]]  # of a slot, the weights into and out, and whether it is causal
    overlay: str | None = None  # what each call costs the host
    stream_us: float = 0  # what the host does to make a stream the current one
    chunk_us: float = 0  # and to cut the tensors of a chunk


def product(m: int, n: int, k: int, batch: int = 1) -> Cost:
    return Cost.matmul(m, n, k, "float32", batch)


# --- from C


@acl.kernel(cost=lambda x, weights, *_: product(x.size // len(weights), weights.shape[1], len(weights)))
def project(x: In, weights: In, q: Out, k: Out, v: Out):
    """Compute queries, keys and values: (sequences, heads, length, width of a head) each."""
    sequences, heads, length, width = q.shape
    together = (x @ weights).reshape(sequences, length, 3, heads, width)
    q[:], k[:], v[:] = together.transpose(2, 0, 3, 1, 4)


def of_scores(q, *_):
    """Return the cost of the products of queries and keys, one for each head of each sequence."""
    sequences, heads, length, width = q.shape
    return product(length, length, width, sequences * heads)


@acl.kernel(cost=of_scores)
def score(q: In, k: In, causal, scores: Out):
    """Compute the attention scores of each pair of positions; if *causal*, none of later positions."""
    np.matmul(q / np.sqrt(np.float32(q.shape[-1])), k.swapaxes(-1, -2), out=scores)
    if causal:
        scores += mask_of(scores.shape[-1])


@acl.kernel(cost=lambda scores: Cost.softmax(scores.size // scores.shape[-1], scores.shape[-1], "float32"))
def softmax(scores: InOut):
    """Compute softmax over the last axis, in place."""
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)


def of_mixtures(_shares, v, _mixed):
    """Return the cost of the products of shares and values."""
    sequences, heads, length, width = v.shape
    return product(length, width, length, sequences * heads)


@acl.kernel(cost=of_mixtures)
def mix(shares: In, v: In, mixed: Out):
    """Mix the values by their shares, and put the heads side by side again."""
    mixed[:] = (shares @ v).swapaxes(1, 2).reshape(mixed.shape)


@acl.kernel(cost=lambda mixed, weights, _: product(mixed.size // len(weights), weights.shape[1], len(weights)))
def multiply(x: In, weights: In, y: Out):
    """Multiply with *weights*."""
    np.matmul(x, weights, out=y)


def mask_of(length: int):
    """Return what is added to the scores: minus infinity for positions behind that of the query."""
    return np.triu(np.full((length, length), np.float32(-np.inf)), k=1)


def from_c(slot, into: Array, out: Array, causal: bool) -> tuple[Stage, ...]:
    return (
        Stage(((project, (slot.x, into, slot.q, slot.k, slot.v)),)),
        Stage(((score, (slot.q, slot.k, causal, slot.scores)),)),
        Stage(((softmax, (slot.scores,)),)),
        Stage(((mix, (slot.scores, slot.v, slot.mixed)),)),
        Stage(((multiply, (slot.mixed, out, slot.y)),)),
    )


# --- as torch does


@acl.kernel(cost=lambda _together, _number, part: Cost.permute(part.size, "float32"))
def split(together: In, number, part: Out):
    """Copy the queries, keys or values to (sequences, heads, length, width of a head)."""
    sequences, heads, length, width = part.shape
    part[:] = together.reshape(sequences, length, 3, heads, width)[:, :, number].swapaxes(1, 2)


@acl.kernel(cost=lambda _causal, scores: Cost.permute(scores.size, "float32"))
def spread_mask(causal, scores: Out):
    """Write the mask to all scores, element by element, which is how baddbmm begins. That the product behind it reads
    them is in this cost, too.
    """
    scores[:] = mask_of(scores.shape[-1]) if causal else 0


@acl.kernel(cost=of_scores)
def add_scores(q: In, k: In, scores: InOut):
    scores += q / np.sqrt(np.float32(q.shape[-1])) @ k.swapaxes(-1, -2)


@acl.kernel(cost=lambda scores, _: Cost.softmax(scores.size // scores.shape[-1], scores.shape[-1], "float32"))
def softmax_to(scores: In, shares: Out):
    np.exp(scores - scores.max(axis=-1, keepdims=True), out=shares)
    shares /= shares.sum(axis=-1, keepdims=True)


@acl.kernel(cost=of_mixtures)
def mix_heads(shares: In, v: In, by_head: Out):
    np.matmul(shares, v, out=by_head)


@acl.kernel(cost=lambda _by_head, mixed: Cost.permute(mixed.size, "float32"))
def join_heads(by_head: In, mixed: Out):
    """Copy the mixtures to (sequences, length, width)."""
    mixed[:] = by_head.swapaxes(1, 2).reshape(mixed.shape)


def as_torch(slot, into: Array, out: Array, causal: bool) -> tuple[Stage, ...]:
    splits = [(split, (slot.together, number, part)) for number, part in enumerate((slot.q, slot.k, slot.v))]
    return (
        Stage(((multiply, (slot.x, into, slot.together)), *splits), 6 * VIEW_US),
        Stage(((spread_mask, (causal, slot.scores)), (add_scores, (slot.q, slot.k, slot.scores))), 3 * VIEW_US),
        Stage(((softmax_to, (slot.scores, slot.shares)),)),
        Stage(
            ((mix_heads, (slot.shares, slot.v, slot.by_head)), (join_heads, (slot.by_head, slot.mixed))), 4 * VIEW_US
        ),
        Stage(((multiply, (slot.mixed, out, slot.y)),), 2 * VIEW_US),
    )


@cache
def without_results(kernel):
    """Return a kernel that takes as long as *kernel* and computes nothing."""
    idle = acl.kernel(cost=kernel.cost)(kernel.function)
    idle.function = lambda *_: None
    return idle


def only_times(frame: Frame) -> Frame:
    """Return *frame* without the results of its kernels, for jobs that would take the machine too long."""

    def stages(*args) -> tuple[Stage, ...]:
        return tuple(
            stage._replace(kernels=tuple((without_results(kernel), args) for kernel, args in stage.kernels))
            for stage in frame.stages(*args)
        )

    return frame._replace(stages=stages)


FROM_C = Frame(from_c)
AS_TORCH = Frame(as_torch, "torch", STREAM_US, 8 * VIEW_US)  # slices of two arrays of the host and of six tensors
