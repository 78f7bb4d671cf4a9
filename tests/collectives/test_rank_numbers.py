"""The number of a folded rank notices when a program tells those apart for which it runs."""

import pickle
import random
from dataclasses import replace

import numpy as np
import pytest

import acl_py as acl
from acl_py.runtime.rank_numbers import Watch
from device_model.profile import load

RANKS = 16


def folded(rank, **options):
    """What each of sixteen ranks returns."""

    async def main():
        comms[:] = await acl.CommInitAll(RANKS)
        return await acl.ranks(RANKS, rank, fold=True, **options)

    return acl.run(main, device=replace(load("h200"), devices=RANKS), values=False, trace=False)


comms = []


async def ring(number):
    """What all ranks do alike, with lists and dictionaries of ranks, and conditions that are the same for all."""
    names = dict.fromkeys(range(RANKS), "a rank")
    if number < RANKS and number + 1 != 0 and number // RANKS == 0 and (number + 1) % RANKS < RANKS:
        buffer = await acl.Malloc(64)
        async with acl.group():
            await acl.Send(buffer, 16, "float32", (number + 1) % RANKS, comms[number])
            await acl.Recv(buffer, 16, "float32", (number - 1) % RANKS, comms[number])
    return names[number]


def test_a_program_that_does_the_same_on_all_ranks_is_folded():
    assert folded(ring) == ["a rank"] * RANKS


async def by_stage(number):
    stage, _ = divmod(number, 4)
    if stage > 0:
        await acl.CreateStream()


async def odd_one(number):
    if number == 5:
        await acl.CreateStream()


async def first_one(number):
    while not number:
        await acl.CreateStream()
        return


async def one_of_some(number):
    if number + 1 in (3, 4):
        await acl.CreateStream()


async def lower_half(number):
    if number < RANKS / 2:
        await acl.CreateStream()


async def reflected(number):
    if 3 <= 2 * number:  # noqa: SIM300 - Python asks the number first, with the other sign
        await acl.CreateStream()


@pytest.mark.parametrize(
    ("rank", "text", "other", "key"),
    [
        (by_stage, "rank // 4 > 0", 4, "rank // 4"),
        (odd_one, "rank == 5", 5, "rank == 5"),
        (first_one, "rank != 0", 1, "rank != 0"),
        (one_of_some, "rank + 1 == 3", 2, "rank + 1"),
        (lower_half, "rank < 8.0", 8, "rank < 8.0"),
        (reflected, "2 * rank >= 3", 2, "2 * rank"),
    ],
)
def test_a_comparison_that_tells_ranks_apart_says_how_to_tell_them_apart_with_alike(rank, text, other, key):
    with pytest.raises(ExceptionGroup) as caught:
        folded(rank)
    [error] = caught.value.exceptions
    assert f"rank 0 runs for 16 ranks, which are not alike: {text} at test_rank_numbers.py:" in str(error)
    assert f"for rank 0, and not for rank {other}; tell them apart with alike=lambda rank: {key};" in str(error)
    assert folded(rank, alike=eval(f"lambda rank: {key}")) == [None] * RANKS


class Stages:
    """Ranges of ranks, in a field."""

    width = 8

    def __init__(self):
        self.all = range(RANKS)
        self.count = RANKS // self.width


async def in_containers(number):
    """What all ranks are in, and what none is in."""
    stages, ranks, some = Stages(), list(range(RANKS)), {RANKS, RANKS + 1}
    assert number in range(RANKS)
    assert number in stages.all
    assert number in ranks
    assert number // 4 in (0, 1, 2, 3)
    name = "é" if number - 1 in range(-1, stages.count * stages.width - 1) else ""
    assert number * 2 in range(
        2 * RANKS
    )  # fmt: skip
    return name, number not in range(RANKS, 2 * RANKS), number in some


def test_a_container_that_all_ranks_are_in_does_not_tell_them_apart():
    assert folded(in_containers) == [("é", True, False)] * RANKS


async def in_half(number):
    if number not in range(RANKS // 2):
        await acl.CreateStream()


async def in_an_unknown_one(number):
    if number in made_on_call():
        await acl.CreateStream()


def made_on_call():
    return range(RANKS)


@pytest.mark.parametrize("rank", [in_half, in_an_unknown_one])
def test_a_container_that_only_some_are_in_or_that_is_not_known_is_refused(rank):
    with pytest.raises(ExceptionGroup) as caught:
        folded(rank)
    assert "which are not alike: rank == 0 at test_rank_numbers.py:" in str(caught.value.exceptions[0])


def test_who_says_which_ranks_are_alike_is_believed():
    async def rank(number):
        return "first" if number == 0 else "other"

    assert folded(rank, alike=lambda number: 0) == ["first"] * RANKS


def test_a_number_that_was_returned_is_like_any_other():
    async def rank(number):
        return number + 1

    found = folded(rank)
    assert found[0] == 1
    assert found == [1] * RANKS
    assert pickle.loads(pickle.dumps(found[0])) == 1


def test_numbers_compute_as_plain_ones_and_compare_as_all_ranks_would():
    chance = random.Random(0)
    words = ("+", "-", "*", "//", "%", "&", "|", "^", ">>")
    for _ in range(300):
        text = "rank"
        for _ in range(chance.randrange(1, 4)):
            each = f"({text}) {chance.choice(words)} {chance.randrange(1, 9)}"
            text = each if chance.random() < 0.7 else f"{chance.randrange(20, 30)} - ({each})"
        text = f"{text} {chance.choice(('<', '<=', '==', '!=', '>', '>='))} {chance.randrange(-5, 30)}"
        ranks = range(chance.randrange(4), 12)
        outcomes = {eval(text, {"rank": rank}) for rank in ranks}
        if len(outcomes) == 1:
            assert {eval(text, {"rank": Watch(ranks).number()})} == outcomes, text
        else:
            with pytest.raises(ValueError, match="which are not alike"):
                eval(text, {"rank": Watch(ranks).number()})


def test_a_number_stays_a_number():
    number = Watch(range(4, 8)).number()
    assert (f"{number}", number / 2, number + 0.5, np.arange(8)[number], [*range(9)][number + 1]) == (
        "4", 2.0, 4.5, 4, 5,
    )  # fmt: skip
    for _ in range(100):  # it forgets where it comes from, and does not grow
        number = number + 1
    assert (type(number), number) == (int, 104)
