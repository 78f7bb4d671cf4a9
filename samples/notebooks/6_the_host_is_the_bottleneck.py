# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 6 The host is the bottleneck: what streams cannot do, and graphs can
#
# A launch keeps the host for some microseconds, however little the kernel has to do. Small kernels end before the host
# has made the next call, so the device has nothing to do. A **graph** is captured once, and one call launches all of
# it.
#
# *The question:* a step launches 20 kernels of 2 us. How many steps a second does a program make that queues them in
# one stream, in four streams, or as a graph?

# %%
import json
import sys
from importlib import import_module
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import timeline

import acl_py
from acl_py import Cost

KERNELS, STEPS = 20, 50

# %% [markdown]
# ## Your prediction
#
# Steps a second; 20 kernels of 2 us are 40 us of work.

# %%
prediction = {"one stream": "?", "four streams": "?", "a graph": "?"}


# %% [markdown]
# ## The run
#
# All three wait once, at the end of all steps.


# %%
def kernel_of(us):
    """Return a kernel of *us* microseconds; many of them have room on the device at once."""

    @acl_py.kernel(cost=Cost(us=us))
    def small():
        pass

    return small


async def step_in_streams(kernel, streams):
    """Launch the kernels of a step in *streams*, in turn."""
    for number in range(KERNELS):
        await kernel[4, streams[number % len(streams)]]()


async def run(us, streams, *, graph=False, steps=STEPS):
    """Make the steps with kernels of *us*; return steps a second, and the simulation."""
    sim = acl_py.open(device="h200")
    kernel, streams = kernel_of(us), [await acl_py.CreateStream() for _ in range(streams)]
    if graph:
        async with acl_py.capture(streams[0]) as captured:
            await step_in_streams(kernel, streams)
        executable = await acl_py.GraphInstantiate(captured)
        await acl_py.GraphUpload(executable, streams[0])
        await acl_py.SynchronizeDevice()
    start = sim.now_ns
    for _ in range(steps):
        if graph:
            await acl_py.GraphLaunch(executable, streams[0])
        else:
            await step_in_streams(kernel, streams)
    await acl_py.SynchronizeDevice()
    rate = steps * 1e9 / (sim.now_ns - start)
    await sim.close()
    return rate, sim


WAYS = {"one stream": {"streams": 1}, "four streams": {"streams": 4}, "a graph": {"streams": 1, "graph": True}}

for name, way in WAYS.items():
    rate, _ = await run(2, **way)
    print(f"{name:12} {rate:8,.0f} steps a second   your prediction: {prediction[name]}")

# %% [markdown]
# Four streams change nothing, because the device was never the bottleneck. Look at one step:

# %%
one_step = {name: await run(2, **way, steps=1) for name, way in WAYS.items()}
timeline.show({name: sim.trace for name, (_, sim) in one_step.items()})

# %% [markdown]
# A launch takes the host about 6 us, and a kernel 2. Whichever stream the next kernel is in, it starts when the host
# has launched it. The graph's kernels follow one another every 3.3 us: the call is made once, and the device goes from
# node to node by itself. (A node needs 1.3 us more than its kernel.)
#
# ## From which duration on does it not matter?

# %%
DURATIONS = [1, 2, 4, 6, 8, 12, 16, 24, 32]
rates = {name: [(await run(us, **way))[0] for us in DURATIONS] for name, way in WAYS.items()}
figure, ax = plt.subplots(figsize=(7, 3.4), dpi=110, layout="constrained")
for (name, found), style in zip(rates.items(), ("o-", "x--", "s:"), strict=True):
    ax.loglog(DURATIONS, found, style, color="black", mfc="none", lw=0.8, label=name)
ax.set_xticks(DURATIONS, DURATIONS)
ax.set_yticks([2_000, 5_000, 10_000, 20_000], ["2,000", "5,000", "10,000", "20,000"])
ax.minorticks_off()
ax.set_xlabel("microseconds of a kernel", fontsize=9)
ax.set_ylabel("steps a second", fontsize=9)
ax.legend(frameon=False, fontsize=8)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# **The rule:** as long as a kernel is shorter than its launch, the number of launches decides. Then streams gain
# nothing; a graph gains 1.9 times with kernels of 2 us, and 2.6 times with 1 us. From 6 us on four streams gain, if the
# kernels are independent and leave cores to each other. A graph that was captured from one stream cannot: its kernels
# are a chain.
#
# ## What the card says
#
# On an NVIDIA H200 chains of kernels of 2 us were launched as graphs (tests/conformance/data/graphs.json): the call of
# a later launch, and what a node takes while the host waits.

# %%
measured = {each["id"]: each for each in json.loads(Path("../../tests/conformance/data/graphs.json").read_text())}


def on_the_card(nodes):
    """Return the microseconds of the call of a later launch of a chain, and of one node while the host waits."""
    program = measured[f"graph-cost-chain-{nodes}"]
    calls = [(program["steps"][each["step"]]["op"], each["cost_us"]) for each in program["observed"]["host"]]
    update = [op for op, _ in calls].index("exec_update")
    (_, launch), (_, wait) = calls[update + 1 : update + 3]
    return launch, (launch + wait) / nodes


async def here(nodes):
    """Return the same of a chain in the simulation."""
    sim = acl_py.open(device="h200")
    kernel, stream = kernel_of(2), await acl_py.CreateStream()
    async with acl_py.capture(stream) as graph:
        for _ in range(nodes):
            await kernel[1, stream]()
    executable = await acl_py.GraphInstantiate(graph)
    for _ in range(2):
        start = sim.now_ns
        await acl_py.GraphLaunch(executable, stream)
        launched = sim.now_ns
        await acl_py.SynchronizeStream(stream)
    await sim.close()
    return (launched - start) / 1000, (sim.now_ns - start) / 1000 / nodes


print(f"{'nodes':>5} {'the call':>10} {'the card':>10} {'a node':>10} {'the card':>10}   us")
for nodes in (10, 500):
    (call, node), (card_call, card_node) = await here(nodes), on_the_card(nodes)
    print(f"{nodes:5} {call:10.1f} {card_call:10.1f} {node:10.2f} {card_node:10.2f}")

# %% [markdown]
# ## Five stages of attention
#
# samples/attention/graph.py serves one short sequence after the other: copy in, five kernels, copy out. The program
# makes seven calls for each, or captures them once. The copies of the graph read and write the same pinned memory
# every time, so the host fills that memory before each launch.

# %%
sys.path[:0] = ["../moe", "../attention"]
five_stages = import_module("five_stages")


async def attention(*, graph, sequences=100):
    """Serve *sequences*, one at a time; return how many a second."""
    sim = acl_py.open(device="h200")
    job = five_stages.random_job(0, sequences, 16, 64, heads=4, chunk=1, causal=True)
    into, out, slot = [
        await five_stages.put(job.into),
        await five_stages.put(job.out),
        await five_stages.create_slot(job),
    ]
    x, y = await acl_py.MallocHost(slot.x.nbytes), await acl_py.MallocHost(slot.y.nbytes)
    stream = await acl_py.CreateStream()

    async def step():
        await acl_py.MemcpyAsync(slot.x, x.nbytes, x, x.nbytes, acl_py.MemcpyKind.HOST_TO_DEVICE, stream)
        for kernel, args in slot.stages(into, out, job.causal):
            await kernel[4, stream](*args)
        await acl_py.MemcpyAsync(y, y.nbytes, slot.y, y.nbytes, acl_py.MemcpyKind.DEVICE_TO_HOST, stream)

    async with acl_py.capture(stream) as captured:
        await step()
    executable = await acl_py.GraphInstantiate(captured)
    start = sim.now_ns
    for sequence in job.x:
        x.numpy(np.float32)[:] = sequence.ravel()
        await (acl_py.GraphLaunch(executable, stream) if graph else step())
        await acl_py.SynchronizeStream(stream)
    rate = sequences * 1e9 / (sim.now_ns - start)
    await sim.close()
    return rate


calls, as_graph = await attention(graph=False), await attention(graph=True)
print(f"sequences a second: {calls:,.0f} by calls, {as_graph:,.0f} as a graph, {as_graph / calls:.1f} x")

# %% [markdown]
# ## A step whose work changes
#
# A graph repeats the same work. In a mixture of experts the device decides at each step which experts have work.
# samples/moe/graph.py has three answers:
#
# * **calls**: the host waits for the counts, and launches the experts that have tokens.
# * **update**: the host waits for the counts, captures a graph for them, and `GraphExecUpdate` gives it to an
#   executable. An update keeps the shape of the graph: sizes may change, nodes may not.
# * **conditions**: each expert is the body of an IF node. A kernel sets the conditions on the device, and the host does
#   not wait between.

# %%
moe, layer = import_module("graph"), import_module("layer")  # of samples/moe

job = moe.Job(layer.trained(), layer.digits()[0][:400], batch=4)
steps = {}
for name, version in moe.VERSIONS.items():
    sim = acl_py.open(device="h200")
    _, steps[name] = await moe.serve(job, version)
    await sim.close()
    print(f"{name:10} {steps[name]:8,.0f} steps a second, {steps[name] / steps['calls']:.1f} x")

# %% [markdown]
# An update gains little: the capture and the update need the host, at each step. With conditions the host makes one
# call, and what it does not know does not matter.
#
# **In short:** compare the duration of your kernels with that of a launch (5 to 15 us if a framework makes it). If they
# are shorter, make fewer and larger launches, or capture a graph; more streams do not help. What the device decides
# belongs into an IF node.
#
# ## Exercises
#
# **1.** A step scales 32 rows of 64 KB. Written with a launch for each row it takes more than 190 us. Make it take less
# than 50 us, without a graph; `scale` takes arrays of any shape.


# %% tags=["exercise"]
ROWS, WIDTH = 32, 16_384


@acl_py.kernel(cost=Cost(bytes=lambda x: 2 * x.nbytes))
def scale(x: acl_py.InOut):
    x *= 2


async def mine(x, stream):
    for row in range(ROWS):
        await scale[4, stream](x[row])


async def check_1(step):
    """Run a step; print its time and whether all rows are scaled."""
    sim = acl_py.open(device="h200")
    stream, device, host = (
        await acl_py.CreateStream(),
        await acl_py.Malloc(4 * ROWS * WIDTH),
        np.ones(ROWS * WIDTH, "f4"),
    )
    await acl_py.Memcpy(device, host.nbytes, host, host.nbytes, acl_py.MemcpyKind.HOST_TO_DEVICE)
    start = sim.now_ns
    await step(acl_py.Array(device, np.float32, (ROWS, WIDTH)), stream)
    await acl_py.SynchronizeStream(stream)
    us = (sim.now_ns - start) / 1000
    await acl_py.Memcpy(host, host.nbytes, device, host.nbytes, acl_py.MemcpyKind.DEVICE_TO_HOST)
    await sim.close()
    right = bool((host == 2).all())
    print("solved:" if right and us < 50 else "not yet:", f"{us:,.0f} us, all rows scaled: {right}")


await check_1(mine)


# %% tags=["solution"] jupyter={"source_hidden": true}
async def solution_1(x, stream):
    await scale[128, stream](x)  # one launch for all rows


await check_1(solution_1)

# %% [markdown]
# **2.** A generator makes tokens one by one: 12 kernels of 2 us for each token, in order, and the host reads the token
# before the next one. Make 50 tokens take less than 3,500 us.


# %% tags=["exercise"]
layer_of_model = kernel_of(2)


async def mine(stream, tokens, wait_for_token):
    for _ in range(tokens):
        for _ in range(12):
            await layer_of_model[4, stream]()
        await wait_for_token()


async def check_2(generate, tokens=50):
    """Generate *tokens*; print the time and whether the right number of kernels ran."""
    sim = acl_py.open(device="h200")
    stream, read = await acl_py.CreateStream(), []

    async def wait_for_token():
        await acl_py.SynchronizeStream(stream)
        read.append(len(sim.trace.ops))

    start = sim.now_ns
    await generate(stream, tokens, wait_for_token)
    us = (sim.now_ns - start) / 1000
    await sim.close()
    right = read == list(range(12, 12 * tokens + 1, 12))
    print("solved:" if right and us < 3_500 else "not yet:", f"{us:,.0f} us, 12 kernels for each token: {right}")


await check_2(mine)


# %% tags=["solution"] jupyter={"source_hidden": true}
async def solution_2(stream, tokens, wait_for_token):
    async with acl_py.capture(stream) as graph:
        for _ in range(12):
            await layer_of_model[4, stream]()
    executable = await acl_py.GraphInstantiate(graph)
    for _ in range(tokens):
        await acl_py.GraphLaunch(executable, stream)
        await wait_for_token()


await check_2(solution_2)
