"""Which calls wait for work, and for how long: copies between host addresses, synchronous copies of pageable memory
behind the legacy stream, frees. Measured on another host than the semantics programs.
"""

import pytest
from criteria import measured, replayed, wrong_codes, wrong_waits

PROGRAMS = measured("waits")


@pytest.mark.parametrize("document", PROGRAMS, ids=[document["id"] for document in PROGRAMS])
def test_waits_where_the_card_does(document):
    ours = replayed("waits", document["id"])
    assert wrong_codes(document, ours) == []
    assert wrong_waits(document, ours) == []


# By size in bytes: the microseconds of Free on two hosts. The second is the one of the programs above.
FREES = {1 << 20: (7, 9), 16 << 20: (63, 66), 1 << 30: (536, 580), 8 << 30: (2_799, 4_653)}


def of_calls(op, id_, side):
    """Microseconds by size of the calls of one kind in a program: the card's, or ours."""
    document = next(each for each in PROGRAMS if each["id"] == id_)
    sizes = {step["name"]: step["bytes"] for step in document["steps"] if "bytes" in step}
    host = {call.step: call.exit_us - call.enter_us for call in replayed("waits", id_).host}
    if side == "card":
        host = {call["step"]: call["cost_us"] for call in document["observed"]["host"]}
    return {sizes[step["name"]]: host[i] for i, step in enumerate(document["steps"]) if step["op"] == op}


def test_free_takes_longer_the_more_pages_it_unmaps_as_on_the_nearer_of_two_hosts():
    card, ours = of_calls("free", "free-large-idle", "card"), of_calls("free", "free-large-idle", "ours")
    assert sorted(ours) == [1 << 20, 16 << 20, 256 << 20, 1 << 30, 4 << 30, 8 << 30]
    for size, us in ours.items():
        hosts = FREES.get(size, (card[size],))
        assert min(abs(us / there - 1) for there in hosts) < 0.2, f"{size} bytes: {us} us, there {hosts}"


def test_free_behind_a_kernel_first_waits_for_it_and_then_unmaps():
    [idle] = [us for size, us in of_calls("free", "free-large-idle", "ours").items() if size == 1 << 30]
    [behind] = of_calls("free", "free-large-busy", "ours").values()
    assert behind == pytest.approx(3_000 + idle, abs=20)


def test_free_of_memory_from_a_pool_does_not_wait_and_gives_it_back_to_the_device():
    [[card], [ours]] = (of_calls("free", "free-of-async", side).values() for side in ("card", "ours"))
    assert ours == pytest.approx(card, rel=0.25)


def test_malloc_takes_longer_the_more_pages_it_maps():
    card, ours = of_calls("malloc", "free-large-idle", "card"), of_calls("malloc", "free-large-idle", "ours")
    for size, us in ours.items():
        assert us == pytest.approx(card[size], rel=0.2 if size >= 1 << 30 else 0.5), f"{size} bytes"
