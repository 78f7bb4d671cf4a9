"""The sanitizer on a card: what comes from calls, ranges and order, in the words that it has on the model."""

import numpy as np
import pytest

import acl_py
from acl_py.errors import AclError, DeadlockError
from acl_py.programs.format import parse
from acl_py.sanitizer.watch import watching
from tests.campaigns import many
from tests.card.test_card_code import SCALE
from tests.cuda.calling import PTX
from tests.sanitizer.oracle import programs
from tests.sanitizer.oracle.comparing import Difference, compare
from tests.sanitizer.oracle.running import run

pytestmark = pytest.mark.filterwarnings("error")
KIND = acl_py.MemcpyKind.DEFAULT
RULES = ("cuda", "cuda_per_thread")


@pytest.fixture
def begun(card):
    """A card whose driver has begun its own session, which is not watched then."""
    acl_py.run(acl_py.Malloc, 8, device=card)
    return card


def findings_of(main, device, **options):
    """Return the texts of what is found in *main*, and the notes."""
    with watching(frozenset()) as watch:
        acl_py.run(main, device=device, **options)
    return sorted(finding.text for finding in watch.findings), watch.notes


def random_programs(seeds):
    """Random programs for one device, with their rules."""
    for seed in seeds:
        rules = RULES[seed % 2]
        document = programs.program(seed, rules)
        named = [*document["streams"].values(), *document["buffers"].values(), *document["steps"]]
        if not any(each.get("device") for each in named):
            yield parse(document), rules


def differences(card, seeds):
    """How many programs came to their end, and what the sanitizer and the oracle say differently of them."""
    found = [compare(program, rules, card, "time") for program, rules in random_programs(seeds)]
    compared: list[Difference] = [each for each in found if each is not None]
    return len(compared), [each for each in compared if each]


def test_it_reports_every_pair_that_no_promise_orders(begun):
    count, differ = differences(begun, range(16))
    assert differ == []
    assert count > 8


@pytest.mark.slow
def test_it_reports_them_in_many_programs(begun):
    count, differ = differences(begun, range(1000, 1000 + many(600)))
    assert differ == []
    assert count > many(400)


@pytest.mark.slow
def test_a_run_with_the_same_answers_has_the_findings_of_the_model_word_for_word(begun):
    count = 0
    for program, rules in random_programs(range(200, 200 + many(200))):
        try:
            on_model = run(program, rules, device="h200")
        except DeadlockError:
            continue
        on_card = run(program, rules, device=begun, bodies="time")
        if on_card.run == on_model.run:  # queries may come to other answers
            count += 1
            texts = [sorted(finding.text for finding, _ in each.findings) for each in (on_model, on_card)]
            assert texts[0] == texts[1]
            assert on_card.notes == on_model.notes
    assert count > many(100)


def test_kernels_for_a_card_lifetimes_and_leaks_have_the_texts_of_the_model(begun):
    @acl_py.kernel(cost=acl_py.Cost(us=5), card=SCALE)
    def scale(x: acl_py.In, y: acl_py.Out, n: int, by: float) -> None:
        y[:n] = x[:n] * np.float32(by)

    async def main():
        streams = [await acl_py.CreateStream(name=name) for name in ("one", "two")]
        x, y = [acl_py.Array(await acl_py.Malloc(64, name=name), np.float32) for name in "xy"]
        await acl_py.MemsetAsync(x, 64, 0, 64, streams[0])
        await scale[1, streams[1]](x, y, 16, 2.0)
        await acl_py.SynchronizeDevice()
        await acl_py.Free(y.buffer)
        with pytest.raises(AclError):
            await scale[1, streams[1]](x, y, 16, 2.0)
        await acl_py.DestroyStream(streams[0])

    texts, notes = findings_of(main, "h200", sanitize="device,leaks")
    assert findings_of(main, begun, sanitize="device,leaks") == (texts, notes)
    assert len(texts) == 4


def test_what_a_host_function_touches_belongs_to_it(begun):
    """On a real card it runs in a thread of the driver."""

    async def main():
        stream, pinned = await acl_py.CreateStream(name="work"), await acl_py.MallocHost(64, name="pinned")
        values = pinned.numpy(np.uint32)

        def write(number):
            values[number] = 7

        await acl_py.LaunchHostFunc(stream, write, (0,))
        values[0] = 1  # a race
        await acl_py.LaunchHostFunc(stream, write, (1,))
        await acl_py.SynchronizeStream(stream)
        values[1] = 2  # none

    texts, notes = findings_of(main, "h200", sanitize="device,host")
    assert findings_of(main, begun, sanitize="device,host") == (texts, notes)
    assert len(texts) == 1


def test_the_host_is_seen_in_managed_registered_and_freed_memory(begun):
    async def main():
        stream = await acl_py.CreateStream(name="work")
        managed, pinned = await acl_py.MallocManaged(64, name="managed"), await acl_py.MallocHost(64, name="pinned")
        registered = await acl_py.HostRegister(np.zeros(64, np.uint8), name="registered")
        views = [each.numpy(np.uint8) for each in (managed, pinned, registered)]
        await acl_py.FreeHost(pinned)
        await acl_py.MemsetAsync(managed, 64, 1, 64, stream)
        views[0][0]  # races with the fill
        views[1][0] = 1  # is freed
        await acl_py.MemcpyAsync(registered, 64, managed, 64, KIND, stream)
        views[2][0] = 2  # races with the copy
        await acl_py.SynchronizeStream(stream)
        views[0][1], views[2][1] = 3, 3  # all is over
        await acl_py.HostUnregister(registered)

    texts, notes = findings_of(main, "h200", sanitize="device,host")
    assert findings_of(main, begun, sanitize="device,host") == (texts, notes)
    assert len(texts) == 3


def test_nodes_of_a_graph_are_named_as_on_the_model(begun):
    async def main():
        stream, other = [await acl_py.CreateStream(name=name) for name in ("one", "two")]
        pinned, buffer = await acl_py.MallocHost(64, name="pinned"), await acl_py.Malloc(64, name="buffer")
        values = pinned.numpy(np.uint8)

        def add():
            values[:] += 1

        async with acl_py.capture(stream) as graph:
            await acl_py.MemsetAsync(buffer, 64, 3, 64, stream)
            await acl_py.MemcpyAsync(pinned, 64, buffer, 64, KIND, stream)
            await acl_py.LaunchHostFunc(stream, add)
        executable = await acl_py.GraphInstantiate(graph)
        await acl_py.GraphLaunch(executable, stream)
        await acl_py.MemsetAsync(buffer, 64, 1, 64, other)  # races with the fill and the copy
        values[1] = 5  # races with the copy and the function
        await acl_py.SynchronizeDevice()
        await acl_py.MemsetAsync(buffer, 64, 1, 64, other)  # all is over
        values[2] = 5
        await (await acl_py.GraphLaunch(executable, other))  # behind this fill
        return values.tolist()

    texts, notes = findings_of(main, "h200", sanitize="device,host")
    assert findings_of(main, begun, sanitize="device,host") == (texts, notes)
    assert len(texts) == 4


def test_what_needs_the_model_is_said(begun):
    async def main():
        buffer = await acl_py.Malloc(64)
        await (await acl_py.ptx.load(PTX))["add"][1, 16](buffer, np.uint32(5), np.uint32(16))
        await acl_py.SynchronizeDevice()
        await acl_py.Free(buffer)

    assert findings_of(main, begun, sanitize=True) == (
        [],
        [
            "reads of unwritten bytes are not looked for on a card: the model knows them",
            "what kernels in PTX read and write is not seen on a card: sanitize the program on the model, too",
        ],
    )
    for part in ("uninitialised", "device,digest"):
        with pytest.raises(ValueError, match=r"a card does not show what the part \w+ looks at; leave it out"):
            acl_py.run(main, device=begun, sanitize=part)
