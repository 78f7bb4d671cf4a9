"""A kernel after a folder of cann-samples that sorts rows by their experts."""

import numpy as np

from acl_py import asc
from public.cases import Data, buffer, follows, gm, handed_over, pieces, queue, up

VECIN, VECOUT = asc.TPosition.VECIN, asc.TPosition.VECOUT
NO_PADDING = asc.DataCopyPadExtParams(False, 0, 0, 0)


def _routing_data(rng):
    length = 242
    experts = rng.integers(0, 40, length).astype(np.int32)
    order = np.argsort(experts, kind="stable").astype(np.int32)
    given = {"experts": experts, "workspace": np.zeros(2 * up(length, 32), np.float32), "length": length}
    return Data(given, {"ordered": experts[order], "rows": order})


@follows("cann-samples/Samples/2_Performance/moe_init_routing_story/include", _routing_data)
@asc.kernel
def moe_sort(experts: asc.In, workspace: asc.InOut, ordered: asc.Out, rows: asc.Out, length: int):
    """Rows in the order of their experts: lists are sorted one by one, and merged in pieces of 32 records from GM.

    A merge stops when a piece is used up, and the next copies begin behind what it took. The folder casts whole groups
    and takes whole groups apart; here the bytes behind the rows are written first, so that none is read unwritten.
    """
    pipe, loop, group = asc.TPipe(), 96, 32
    arriving, leaving = queue(pipe, VECIN, 1, loop * 8), queue(pipe, VECOUT, 1, loop * 8)
    room = buffer(pipe, loop * 8).Get(asc.float32)
    lists = list(pieces(length, loop))
    for first, n in lists:
        wide = up(n, group)
        local = arriving.AllocTensor(asc.int32)
        params = asc.DataCopyExtParams(1, n * 4, 0, 0, 0)
        asc.DataCopyPad(local, gm(experts, asc.int32, first), params, NO_PADDING)
        asc.ArithProgression(local[wide:], first, 1, wide)
        arriving.EnQue(local)
        local = arriving.DeQue(asc.int32)
        scores = local.ReinterpretCast(asc.float32)
        asc.Cast(scores, local, asc.RoundMode.CAST_ROUND, n)
        asc.Muls(scores, scores, -1.0, n)
        if n % group:
            mask = (2**group - 1) << n % group & (2**group - 1)
            asc.Duplicate(scores[n - n % group :], -3.4e38, [mask, 0], 1, 1, 8)
        records = leaving.AllocTensor(asc.float32)
        index = local[wide:].ReinterpretCast(asc.uint32)
        asc.Sort(records, scores, index, room, wide // group, is_full_sort=True)
        leaving.EnQue(records)
        arriving.FreeTensor(local)
        records = leaving.DeQue(asc.float32)
        at = asc.GetSortLen(first, asc.float32)
        asc.DataCopy(gm(workspace, asc.float32, at), records, up(asc.GetSortLen(n, asc.float32), 8))
        leaving.FreeTensor(records)
    _merge_out(pipe, workspace, ordered, rows, lists)


def _merge_out(pipe, workspace, ordered, rows, lists):
    """Merge the lists of the workspace, and take the records apart."""
    group = 32
    heads = [buffer(pipe, group * 8).Get(asc.float32) for _ in lists]
    merged, values, numbers, index = (
        buffer(pipe, len(lists) * group * size).Get(dtype)
        for size, dtype in ((8, asc.float32), (4, asc.float32), (4, asc.int32), (4, asc.uint32))
    )
    places = [asc.GetSortOffset(first, asc.float32) for first, _ in lists]
    remaining, done = [n for _, n in lists], 0
    asc.Duplicate(merged, 0.0, merged.GetSize())
    while any(remaining):
        handed_over(asc.HardEvent.MTE3_MTE2)
        active = [number for number, left in enumerate(remaining) if left]
        lengths = [min(group, remaining[number]) for number in active]
        for number, n in zip(active, lengths, strict=True):
            size = up(asc.GetSortLen(n, asc.float32), 8)
            asc.DataCopy(heads[number], gm(workspace, asc.float32, places[number]), size)
        handed_over(asc.HardEvent.MTE2_V)
        taken = [0] * 4
        if len(active) > 1:
            sources = [heads[number] for number in active]
            sources += [sources[0]] * (4 - len(sources))
            counts = [*lengths, 0, 0][:4]
            valid = (1 << len(active)) - 1
            asc.MrgSort(merged, sources, counts, taken, valid, 1, is_exhausted_suspension=True)
        else:
            asc.DataCopy(merged, heads[active[0]], up(asc.GetSortLen(lengths[0], asc.float32), 8))
            taken[0] = lengths[0]
        for number, n in zip(active, taken, strict=False):
            remaining[number] -= n
            places[number] += asc.GetSortOffset(n, asc.float32)
        n = sum(taken)
        asc.Extract(values, index, merged, -(-n // group))
        asc.Muls(values, values, -1.0, up(n, 8))
        asc.Cast(numbers, values, asc.RoundMode.CAST_ROUND, up(n, 8))
        handed_over(asc.HardEvent.V_MTE3)
        params = asc.DataCopyParams(1, n * 4, 0, 0)
        asc.DataCopyPad(gm(ordered, asc.int32, done), numbers, params)
        asc.DataCopyPad(gm(rows, asc.int32, done), index.ReinterpretCast(asc.int32), params)
        done += n
