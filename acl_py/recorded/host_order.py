"""The order of the host in a recorded run: where each step begins, and where calls that have slept go on.

What a task has waited for outside devices (a queue, a lock, a `gather`) is not recorded. It is found in this way. If
the wait of another task has ended since the last step of a task, then time has passed in which the task could not run.
So its next step comes `after` that one.
"""

from bisect import bisect_right
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise

from acl_py.recorded.acts import Act
from acl_py.recorded.names import Fields
from acl_py.recorded.translations import GIVE_WAY, asleep

_LAST = 1 << 62  # behind all staged copies


@dataclass(slots=True)
class Item:
    """A place in the order of the host: a step that begins at *at*, or a call that has slept and goes on until *at*
    (*fields* is None).
    """

    at: int
    act: Act
    fields: Fields | None
    after: "Item | None" = None  # the step that must have ended
    index: int = -1  # of its step


def order_of(acts: list[Act]) -> list[Item]:
    """Return the order of the host: where each step begins, with the sleeps between calls, and where calls return."""
    _find_pauses(acts)
    items: list[Item] = []
    steps: dict[int, Item] = {}  # by the id of an act
    last: dict[int, Act] = {}  # of each task: what it did last
    woken: list[tuple[int, Item]] = []  # when a step ended in which time could pass or other tasks run, in order
    busy = 0  # until then the host was seen to do something
    # A heap: until when calls that have begun go on, and the number of the staged copy in which they then sleep.
    returns: list[tuple[int, int, bool, int, int, Act]] = []
    for number, act in enumerate(acts):
        # Copies that are staged from one instant on share the driver's buffers in the order in which they began.
        begins = act.enter, act.staged if act.staged >= 0 and act.since == act.enter else _LAST
        while returns and returns[0][:2] <= begins:
            at, *_, back = heappop(returns)
            place = Item(at, back, None)
            items.append(place)
            woken.append((at, steps[id(back)] if at == back.exit else place))
            busy = max(busy, at)
        before = last.get(act.caller)
        end = before.exit if before is not None else 0
        item = steps[id(act)] = Item(act.enter, act, act.fields)
        if act.enter > max(busy, end):  # nothing ran: the task went on by itself
            sleep = Item(end, act, asleep(act.enter - end))
            items.insert(_behind(items, before), sleep)
            woken.append((act.enter, sleep))
        else:
            item.after = _waited_for(woken, end if before is not None else -1, act)
        items.append(item)
        if act.since < 0 and act.pauses:
            woken.append((act.exit, item))
        if act.since >= 0:
            for at, staged in (*act.naps, (act.exit, -1)):
                heappush(returns, (at, staged, act.yields, act.row, number, act))
        last[act.caller] = act
        busy = max(busy, act.begun)
    items += [Item(at, act, None) for at, *_, act in sorted(returns, key=lambda each: each[:-1])]
    return _with_turns(_without_needless(items))


def _find_pauses(acts: list[Act]) -> None:
    """Note which calls let other tasks run although they did not sleep: these tasks made calls meanwhile, or ended
    theirs.
    """
    ends = sorted(at for act in acts if act.since >= 0 for at in (*(at for at, _ in act.naps), act.exit))
    for act, next_ in pairwise([*acts, None]):
        assert act is not None, "only the last one is None"
        if act.since >= 0:
            continue
        if next_ is not None and next_.enter < act.exit and next_.caller != act.caller:
            act.since, act.yields = next_.enter, True
        elif act.pauses:
            place = bisect_right(ends, act.enter)
            if place < len(ends) and ends[place] <= act.exit:
                act.since, act.yields = act.exit, True


def _waited_for(woken: list[tuple[int, Item]], end: int, act: Act) -> Item | None:
    """Return the latest step of another task in which time could pass, and that ended after *end*, when the task of
    *act* ended its last step.
    """
    for at, item in reversed(woken):
        if at <= end:
            return None
        if item.act.caller != act.caller:
            return item
    return None


def _with_turns(items: list[Item]) -> list[Item]:
    """Return *items* with a step wherever a task let others go on between two of its calls, although it waited neither
    for a device nor for a step of another task. It has waited for something outside devices.
    """
    turns: list[Item] = []  # the last one first
    following: dict[int, Item] = {}  # of each task
    behind: Item | None = None
    for item in reversed(items):
        own = following.get(item.act.caller)
        has_ended = item.at == item.act.exit if item.fields is None else item.act.since < 0
        # Behind a sleep, and behind a wait for another task, it needs no such step.
        if has_ended and own is not None and own is not behind and own.act is not item.act and own.after is None:
            turns.append(Item(item.act.exit, item.act, GIVE_WAY))
        turns.append(item)
        behind = following[item.act.caller] = item
    return turns[::-1]


def _behind(items: list[Item], before: Act | None) -> int:
    """Return the place in *items* behind the end of *before*; the first if there is none."""
    places = (place for place in range(len(items) - 1, -1, -1) if items[place].act is before)
    return next(places, -1) + 1


def _without_needless(items: list[Item]) -> list[Item]:
    """Return *items* without the places at which a call goes on, if the next step of its task follows at once."""
    needed = {
        id(item.act)
        for item, next_ in pairwise([*items, None])
        if item is not None and item.fields is None and next_ is not None and next_.act.caller != item.act.caller
    }
    needed |= {id(item.after.act) for item in items if item.after is not None and item.after.fields is None}
    return [item for item in items if item.fields is not None or id(item.act) in needed]
