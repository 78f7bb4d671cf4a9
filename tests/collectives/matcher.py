"""An independent answer to what a program of ranks does: it knows no time, no stream and no device, and shares no code.

A part can go on when it is the first of its stream and the first of its communicator on its device that is not over.
Whenever all ranks of a collective, or both sides of a Send, can go on and agree, it takes place. A Send also takes
place without its Recv, if the room of the other rank has place for all that has been sent there and was not received.
What is left when nothing can take place any more hangs.
"""

from collections import Counter, defaultdict

import numpy as np

from tests.collectives.programs import Kind, data

_REDUCE = {"sum": np.add.reduce, "max": np.maximum.reduce, "min": np.minimum.reduce}


def hangs(program):
    """Whether *program* hangs."""
    expected = _seats(program)
    left = {(device, place) for device, parts in enumerate(program.parts) for place in range(len(parts))}
    over = set()  # calls: (device, part, ask)
    before = None
    while before != (len(over), len(left)):
        before = len(over), len(left)
        able = {part for part in left if _can_go_on(program, left, part)}
        for key, seats in expected.items():
            whole = len(seats) == _wanted(program, key) and _agree(program, seats)
            if whole and all(each[:2] in able and each not in over for each in seats):
                over.update(seats)
        _send(program, expected, able, over)
        for device, place in able:
            if all((device, place, index) in over for index in range(len(program.parts[device][place].asks))):
                left.discard((device, place))
    return bool(left)


def _send(program, expected, able, over):
    """Let Sends take place without their Recvs, and Recvs of what was sent so."""
    rooms, blocked = defaultdict(lambda: program.room), set()
    for key in sorted((key for key in expected if len(key) > 2 and key[1] != key[2]), key=lambda key: key[3]):
        pair, seats = key[:3], expected[key]
        sent = seats[0]
        ask = program.parts[sent[0]][sent[1]].asks[sent[2]]
        if ask.kind is not Kind.SEND or (all(seat in over for seat in seats) and len(seats) == 2):
            continue
        if sent in over:
            if len(seats) == 2 and seats[1][:2] in able and _agree(program, seats):
                over.add(seats[1])
                continue
        elif sent[:2] not in able or pair in blocked or 4 * ask.count > rooms[pair]:
            blocked.add(pair)
            continue
        over.add(sent)
        rooms[pair] -= 4 * ask.count


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
    expected = _seats(program)
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
    """What meets: the calls, as (device, part, ask), in the order of ranks, by communicator, pair and number."""
    expected, counts = {}, Counter()
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
                    expected.setdefault(key, []).append((device, place, index))
    for key, seats in expected.items():
        if len(key) > 2:  # the Send first
            seats.sort(key=lambda each: program.parts[each[0]][each[1]].asks[each[2]].kind is Kind.RECV)
    return expected


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
            return [nothing, data(asks[0].seed, n)][:ranks]
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
