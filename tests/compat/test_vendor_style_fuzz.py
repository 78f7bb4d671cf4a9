"""Any calls in any order, with good, stale and made-up values: codes of the right shape, and the module still works."""

import random
import threading

import card
import pytest
from card import DEFAULT, content, done, made
from hypothesis import given, settings
from hypothesis import strategies as st
from test_vendor_style_binding import RAW, SIGNATURES, check

from acl_py import DeadlockError
from tests.campaigns import many

pytestmark = pytest.mark.usefixtures("own_folder")
N = 256
CHECKED = "wait_and_reset_notify", "get_function_name"  # whose numbers the binding itself checks
SMALL = (0, 1, 2, 3, 4, 7, 8, 9, 31, 64, N, N + 1, 1 << 20, 1 << 40, -1)
LEFT_OUT = RAW | {
    "util.start_thread", "util.stop_thread",  # threads have their own tests
    "finalize", "finalize_reference",
}  # fmt: skip
CALLS = [s for s in SIGNATURES if s.name not in LEFT_OUT and not s.name.startswith("media.")]


class Scene:
    """What calls can be about: some of each, dead or alive, and whatever other calls have given."""

    def __init__(self, acl, chance):
        self.acl, self.chance = acl, chance
        self.device = [made(acl.rt.malloc(N, 0)) for _ in range(2)]
        self.host = [made(acl.rt.malloc_host(N)) for _ in range(2)]
        self.handles = [0, 1, 0xDEAD0, made(acl.rt.get_context())]
        self.handles += [made(acl.rt.create_stream()) for _ in range(2)]
        self.handles += [made(acl.rt.create_event()), made(acl.rt.create_event_with_flag(9))]
        self.handles += [made(acl.rt.create_event_ex_with_flag(9)), made(acl.rt.create_notify(0))]
        self.handles += [acl.create_data_buffer(self.device[0], N), acl.mdl.create_dataset(), acl.mdl.create_desc()]
        self.handles += [acl.create_tensor_desc(0, [2, 2], 2), acl.op.create_attr(), self.device[0] + 16]

    def pick(self, letter):
        chance = self.chance
        if letter == "k":
            return chance.choice(chance.choice([self.handles, self.handles, self.device, self.host, SMALL]))
        if letter in "iuq":
            return chance.choice(SMALL) % (1 << 31)
        return chance.choice({
            "f": [0.0, -1.5, 1e300], "s": ["", "Add", "Cast", "name"], "y": [b"", bytes(N)],
            "l": [[], [1, 2], [chance.choice(self.handles)]], "d": [{}, {"failureMode": 1}],
            "O": [None, len, [1], 3],
        }[letter])  # fmt: skip

    def call(self, signature):
        values = [self.pick(letter) for letter in signature.required]
        try:
            answer = signature.of(self.acl)(*values)
        except (TypeError, ValueError):
            assert set(signature.required) & set("ldOs") or signature.short in CHECKED, values
        except DeadlockError:
            pass  # what a card would hang at
        else:
            check(signature, answer, values)
            first = answer[0] if isinstance(answer, tuple) else answer
            if isinstance(first, int) and first > 1 << 16:
                self.handles.append(first)


def works(acl, handles):
    """Can a script begin again, once it has dropped what never ends?"""
    for device in (1, 0):
        done(acl.rt.set_device(device))
        for handle in handles:
            acl.rt.stream_abort(handle)
        done(acl.rt.reset_device_force(device))
    done(acl.rt.set_device(0))
    stream, address, pinned = made(acl.rt.create_stream()), made(acl.rt.malloc(N, 0)), made(acl.rt.malloc_host(N))
    done(acl.rt.memset(pinned, N, 7, N), acl.rt.memcpy_async(address, N, pinned, N, DEFAULT, stream))
    done(acl.rt.synchronize_stream(stream))
    assert set(content(acl, address, N)) == {7}
    done(acl.rt.destroy_stream(stream), acl.rt.free(address), acl.rt.free_host(pinned))


def play(calls, seed):
    with card.module() as acl:
        scene = Scene(acl, random.Random(seed))
        for signature in calls:
            scene.call(signature)
        works(acl, scene.handles)


@given(st.lists(st.sampled_from(CALLS), max_size=60), st.integers(0, 1 << 32))
def test_any_calls_in_any_order(calls, seed):
    play(calls, seed)


@given(st.lists(st.sampled_from([s for s in CALLS if s.name.startswith("rt.")]), max_size=60), st.integers(0, 1 << 32))
def test_any_calls_of_the_runtime_in_any_order(calls, seed):
    play(calls, seed)


@pytest.mark.slow
@settings(settings.get_profile("campaign"), max_examples=many(500))
@given(st.lists(st.sampled_from(CALLS), max_size=100), st.integers(0, 1 << 32))
def test_very_many_calls_in_any_order(calls, seed):
    play(calls, seed)


@pytest.mark.slow
@given(st.lists(st.lists(st.sampled_from(CALLS), max_size=40), min_size=2, max_size=3), st.integers(0, 1 << 32))
def test_any_calls_in_several_threads(plans, seed):
    caught = []

    def run(calls):
        try:
            acl.rt.set_context(context)  # another thread may have ended it already
            for signature in calls:
                scene.call(signature)
        except BaseException as error:  # of a thread, to be raised in the test
            caught.append(error)

    with card.module() as acl:
        context, scene = made(acl.rt.get_context()), Scene(acl, random.Random(seed))
        threads = [threading.Thread(target=run, args=(calls,)) for calls in plans]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        works(acl, scene.handles)
    if caught:
        raise caught[0]
