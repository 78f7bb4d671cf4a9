"""An independent answer to what a program of ranks does: it knows no time, no stream and no device, and shares no code.

A part can go on when it is the first of its stream and the first of its communicator on its device that is not over.
Whenever all ranks of a collective, or both sides of a Send, can go on and agree, it takes place. What is left when
nothing can take place any more hangs.
"""

from collections import Counter

import numpy as np

from tests.collectives.programs import Kind, data

_REDUCE = {"sum": np.add.reduce, "max": np.maximum.reduce, "min": np.minimum.reduce}


def hangs(program):
    """Whether *program* hangs."""
    numbers, expected = _seats(program)
    over, left = set(), {(device, place) for device, parts in enumerate(program.parts) for place in range(len(parts))}
    moved = True
    while moved:
        moved = False
        able = {part for part in left if _can_go_on(program, left, part)}
        for key, seats in expected.items():
            ready = key not in over and len(seats) == _wanted(program, key) and all(each[:2] in able for each in seats)
            if ready and _agree(program, seats):
                over.add(key)
                moved = True
        for part in sorted(able):
            if all(key in over for key in numbers[part]):
                left.discard(part)
    return bool(left)


def first_mismatch(program, comm):
    """The number of the first collective of *comm* that ranks have called otherwise, or not at all; None if none is."""
    members = program.members[comm]
    called = [
        [
            _facts(ask)
            for part in program.parts[device]
            for ask in part.asks
            if ask.comm == comm and ask.kind not in (Kind.SEND, Kind.RECV)
        ]
        for device in members
    ]
    for number in range(max(map(len, called), default=0)):
        asked = {each[number] if number < len(each) else None for each in called}
        if len(asked) > 1:
            return number + 1
    return None


def results(program):
    """What each call receives, by device, part and ask, for a program that does not hang."""
    _, expected = _seats(program)
    found = {}
    for seats in expected.values():
        asks = [program.parts[device][place].asks[index] for device, place, index in seats]
        for seat, values in zip(seats, _computed(asks), strict=True):
            found[seat] = tuple(values.tolist())
    return found


def _facts(ask):
    is_rooted = ask.kind in (Kind.BROADCAST, Kind.REDUCE, Kind.SCATTER)
    reduces = ask.kind in (Kind.ALL_REDUCE, Kind.REDUCE, Kind.REDUCE_SCATTER)
    count = 0 if ask.kind is Kind.BARRIER else ask.count
    return ask.kind, count, ask.root if is_rooted else -1, ask.op if reduces else None


def _seats(program):
    """For each part what it joins, and for each of these who does: (device, part, ask), in the order of ranks."""
    numbers, expected, counts = {}, {}, Counter()
    for comm, members in enumerate(program.members):
        for rank, device in enumerate(members):
            for place, part in enumerate(program.parts[device]):
                for index, ask in enumerate(part.asks):
                    if ask.comm != comm:
                        continue
                    if ask.kind is Kind.SEND:
                        what = comm, rank, ask.peer
                    elif ask.kind is Kind.RECV:
                        what = comm, ask.peer, rank
                    else:
                        what = (comm,)
                    side = ask.kind if len(what) > 1 else rank
                    counts[what, side] += 1
                    key = *what, counts[what, side]
                    numbers.setdefault((device, place), []).append(key)
                    expected.setdefault(key, []).append((device, place, index))
    for key, seats in expected.items():
        if len(key) > 2:  # the Send first
            seats.sort(key=lambda each: program.parts[each[0]][each[1]].asks[each[2]].kind is Kind.RECV)
    return numbers, expected


def _wanted(program, key):
    return 2 if len(key) > 2 else len(program.members[key[0]])


def _can_go_on(program, left, part):
    device, place = part
    mine = program.parts[device][place]
    for before in range(place):
        other = program.parts[device][before]
        blocks = other.stream == mine.stream or other.asks[0].comm == mine.asks[0].comm
        if blocks and (device, before) in left:
            return False
    return True


def _agree(program, seats):
    asks = [program.parts[device][place].asks[index] for device, place, index in seats]
    if asks[0].kind in (Kind.SEND, Kind.RECV):
        return asks[0].count == asks[1].count
    return len({_facts(ask) for ask in asks}) == 1


def _computed(asks):
    """What each of *asks*, which meet, receives."""
    first, ranks = asks[0], len(asks)
    nothing, n = np.empty(0, np.int32), first.count
    match first.kind:
        case Kind.BARRIER:
            return [nothing] * ranks
        case Kind.SEND:
            return [nothing, data(asks[0].seed, n)]
        case Kind.BROADCAST:
            return [data(asks[first.root].seed, n)] * ranks
        case Kind.SCATTER:
            return np.split(data(asks[first.root].seed, n * ranks), ranks)
        case Kind.ALL_GATHER:
            return [np.concatenate([data(ask.seed, n) for ask in asks])] * ranks
        case Kind.ALL_TO_ALL:
            sent = [data(ask.seed, n * ranks).reshape(ranks, n) for ask in asks]
            return [np.concatenate([rows[rank] for rows in sent]) for rank in range(ranks)]
    size = n * ranks if first.kind is Kind.REDUCE_SCATTER else n
    total = _REDUCE[first.op.value]([data(ask.seed, size) for ask in asks]).astype(np.int32)
    if first.kind is Kind.REDUCE_SCATTER:
        return np.split(total, ranks)
    return [total if first.kind is Kind.ALL_REDUCE or rank == first.root else nothing for rank in range(ranks)]
