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
# one stream, in four streams, or as a graph? (Before it: 1. It needs `pip install 'acl-py[notebooks]'`.)

# %%
import numpy as np
from matplotlib.figure import Figure

import acl_py
from acl_py import Cost, teaching

teaching.begin()
KERNELS, STEPS = 20, 50

# %% [markdown]
# ## Your prediction
#
# Write steps a second in place of each `...`; 20 kernels of 2 us are 40 us of work. An answer within 10 % counts as
# right.

# %% tags=["prediction"]
prediction = teaching.predict({"one stream": ..., "four streams": ..., "a graph": ...}, unit="steps/s")


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

prediction.check({name: (await run(2, **way))[0] for name, way in WAYS.items()})

# %% [markdown]
# Four streams change nothing, because the device was never the bottleneck. Look at one step:

# %%
one_step = {name: await run(2, **way, steps=1) for name, way in WAYS.items()}
teaching.show({name: sim.trace for name, (_, sim) in one_step.items()})

# %% [markdown]
# A launch takes the host about 6 us, and a kernel 2. Whichever stream the next kernel is in, it starts when the host
# has launched it. The graph's kernels follow one another every 3.3 us: the call is made once, and the device goes from
# node to node by itself. (A node needs 1.3 us more than its kernel.)
#
# ## From which duration on does it not matter?

# %%
DURATIONS = [1, 2, 4, 6, 8, 12, 16, 24, 32]
rates = {name: [(await run(us, **way))[0] for us in DURATIONS] for name, way in WAYS.items()}
figure = Figure(figsize=(7, 3.4), dpi=110, layout="constrained")
ax = figure.subplots()
looks = {"h2d": "o-", "kernel": "x--", "d2h": "s:"}
for (name, found), (kind, style) in zip(rates.items(), looks.items(), strict=True):
    ax.loglog(DURATIONS, found, style, color=teaching.COLOURS[kind], mfc="none", lw=0.8, label=name)
ax.set_xticks(DURATIONS, DURATIONS)
ax.set_yticks([2_000, 5_000, 10_000, 20_000], ["2,000", "5,000", "10,000", "20,000"])
ax.minorticks_off()
ax.set_xlabel("microseconds of a kernel", fontsize=9)
ax.set_ylabel("steps a second", fontsize=9)
ax.legend(frameon=False, fontsize=8)
ax.spines[["top", "right"]].set_visible(False)
teaching.picture(
    figure,
    "Steps a second by the microseconds of a kernel.\n"
    + "\n".join(f"{name}: " + ", ".join(f"{rate:,.0f}" for rate in found) for name, found in rates.items()),
)

# %% [markdown]
# **The rule:** as long as a kernel is shorter than its launch, the number of launches decides. Then streams gain
# nothing; a graph gains 1.9 times with kernels of 2 us, and 2.7 times with 1 us. From 6 us on four streams gain, if the
# kernels are independent and leave SMs to each other. A graph that was captured from one stream cannot: its kernels
# are a chain.
#
# ## What the card says
#
# On an NVIDIA H200 chains of kernels of 2 us were launched as graphs: the call of a later launch, and what a node takes
# while the host waits. `model` runs the same program here. (The program launches a graph twice and updates it between:
# the first launch also sends the graph to the device, so only the second one counts.)


# %%
def launch_and_node(measured, nodes):
    """Return the microseconds of the call of a later launch of a chain, and of one node while the host waits."""
    update = [step["op"] for step in measured.steps].index("exec_update")
    launch, wait = measured.call_us[update + 1 : update + 3]
    return launch, (launch + wait) / nodes


print(f"{'nodes':>5} {'the call':>10} {'the card':>10} {'a node':>10} {'the card':>10}   us")
for nodes, name in {1: "graph-cost-chain-1", 10: "graph-cost-chain-10"}.items():
    call, node = launch_and_node(teaching.model(name), nodes)
    card_call, card_node = launch_and_node(teaching.card(name), nodes)
    print(f"{nodes:5} {call:10.1f} {card_call:10.1f} {node:10.2f} {card_node:10.2f}")

# %% [markdown]
# (With one node, the wait of the host is most of the time.)
#
# ## A request of seven operations
#
# A server answers one short request after the other: copy in, the five stages of attention, copy out. The program makes
# seven calls for each, or captures them once. The copies of the graph read and write the same pinned memory every time,
# so the host fills that memory before each launch. (samples/attention/graph.py of the project does this with real
# attention.)

# %%
STAGES = {"project": 1.5, "scores": 1.0, "softmax": 1.0, "mix": 1.0, "output": 1.5}  # microseconds


async def requests(*, graph, number=100, waits=True, sanitize=False):
    """Serve *number* requests, each after the one before if the host *waits*; return how many a second."""
    sim = acl_py.open(device="h200", sanitize=sanitize)
    kernels, stream = [kernel_of(us) for us in STAGES.values()], await acl_py.CreateStream()
    pinned, device = await acl_py.MallocHost(4096), await acl_py.Malloc(4096)
    pinned.numpy()[:] = 0

    async def queue():
        await acl_py.MemcpyAsync(device, 4096, pinned, 4096, acl_py.MemcpyKind.HOST_TO_DEVICE, stream)
        for kernel in kernels:
            await kernel[4, stream]()
        await acl_py.MemcpyAsync(pinned, 4096, device, 4096, acl_py.MemcpyKind.DEVICE_TO_HOST, stream)

    async with acl_py.capture(stream) as captured:
        await queue()
    executable = await acl_py.GraphInstantiate(captured)
    await acl_py.GraphUpload(executable, stream)
    await acl_py.SynchronizeDevice()
    start = sim.now_ns
    for request in range(number):
        pinned.numpy()[:] = request
        await (acl_py.GraphLaunch(executable, stream) if graph else queue())
        if waits:
            await acl_py.SynchronizeStream(stream)
    await acl_py.SynchronizeStream(stream)
    rate = number * 1e9 / (sim.now_ns - start)
    await sim.close()
    return rate, sim


(calls, _), (as_graph, _) = await requests(graph=False), await requests(graph=True)
print(f"requests a second: {calls:,.0f} by calls, {as_graph:,.0f} as a graph, {as_graph / calls:.1f} x")

# %% [markdown]
# The host waits for each request. Without the wait it would be faster still, and wrong: it would fill the pinned memory
# while the copy of the request before may still have to read it. The sanitizer says so:

# %%
(hasty, sim) = await requests(graph=True, number=3, waits=False, sanitize="host")
teaching.findings(sim)

# %% [markdown]
# ## A step whose work changes
#
# A graph repeats the same work. In a mixture of experts the device decides at each step which experts have work: here
# two of eight, with two kernels each. With **calls** the host waits for the counts, and launches the experts that have
# work. With **conditions** each expert is the body of an IF node. A kernel sets the conditions on the device, and the
# host does not wait between. (`serial=True` is for kernels that change Python objects, as the conditions are.
# samples/moe/graph.py has real experts.)

# %%
EXPERTS = 8
expert = kernel_of(3)


@acl_py.kernel(cost=Cost(us=3))
def route(counts: acl_py.Out, turn):
    counts[:] = 0
    counts[[turn[0] % EXPERTS, (turn[0] * 3 + 1) % EXPERTS]] = 1
    turn[0] += 1


@acl_py.kernel(cost=Cost(us=2), serial=True)
def decide(counts: acl_py.In, conditions):
    for has_work, condition in zip(counts > 0, conditions, strict=True):
        condition.set(has_work)


async def steps_of_experts(*, conditions, steps=100):
    """Make *steps*; return how many a second, and how many kernels of experts ran."""
    sim = acl_py.open(device="h200")
    stream = await acl_py.CreateStream()
    counts, seen = acl_py.Array(await acl_py.Malloc(EXPERTS)), await acl_py.MallocHost(EXPERTS)
    turn, nodes = [0], []
    async with acl_py.capture(stream) as graph:
        await route[1, stream](counts, turn)
        await decide[1, stream](counts, nodes)
    behind = graph.nodes[-1:]
    for _ in range(EXPERTS):
        node = await acl_py.GraphAddIfNode(graph, behind)
        nodes.append(node.condition)
        await acl_py.BeginCaptureToGraph(stream, node.body)
        await expert[1, stream]()
        await expert[1, stream]()
        await acl_py.EndCapture(stream)
    executable = await acl_py.GraphInstantiate(graph)
    await acl_py.GraphUpload(executable, stream)
    await acl_py.SynchronizeDevice()
    start = sim.now_ns
    for _ in range(steps):
        if conditions:
            await acl_py.GraphLaunch(executable, stream)
        else:
            await route[1, stream](counts, turn)
            await acl_py.MemcpyAsync(seen, EXPERTS, counts, EXPERTS, acl_py.MemcpyKind.DEVICE_TO_HOST, stream)
            await acl_py.SynchronizeStream(stream)
            for _ in range(seen.numpy().sum()):
                await expert[1, stream]()
                await expert[1, stream]()
        await acl_py.SynchronizeStream(stream)
    rate = steps * 1e9 / (sim.now_ns - start)
    await sim.close()
    return rate, turn[0]


by_calls, turns = await steps_of_experts(conditions=False)
by_conditions, turns_of_graph = await steps_of_experts(conditions=True)
assert turns == turns_of_graph == 100
print(
    f"steps a second: {by_calls:,.0f} by calls, {by_conditions:,.0f} with conditions, {by_conditions / by_calls:.1f} x"
)

# %% [markdown]
# ## Queues that are full, and queues that are shared
#
# A launch returns at once, as long as its stream's queue has room. How many launches is that? And streams are many, but
# hardware queues are eight: streams that share one can hold each other up, although nothing says so.


# %%
async def launches_before_the_host_waits():
    sim = acl_py.open(device="h200")
    stream, kernel, launched, us = await acl_py.CreateStream(), kernel_of(20_000), 0, 0
    while us < 1_000:
        start = sim.now_ns
        await kernel[1, stream]()
        launched, us = launched + 1, (sim.now_ns - start) / 1000
    await acl_py.SynchronizeDevice()
    await sim.close()
    return launched


async def two_kernels_each(streams, *, breadth_first=False):
    """Launch two kernels of 1 ms in each of so many streams; return the microseconds of all."""
    sim = acl_py.open(device="h200")
    kernel, streams = kernel_of(1_000), [await acl_py.CreateStream() for _ in range(streams)]
    start = sim.now_ns
    order = [*streams, *streams] if breadth_first else [stream for stream in streams for _ in range(2)]
    for stream in order:
        await kernel[1, stream]()
    await acl_py.SynchronizeDevice()
    us = (sim.now_ns - start) / 1000
    await sim.close()
    return us


print(f"the launch that waits: number {await launches_before_the_host_waits():,}")
for number in (8, 9):
    print(f"{number} streams with two kernels of 1 ms each: {await two_kernels_each(number):,.0f} us")

# %% [markdown]
# A hardware queue has 1,021 entries, and one kernel runs, so 1,022 launches return at once. (An H200 kept the host at
# its 1,021st launch behind a stream that was blocked; docs/accuracy.md of the project.) The ninth stream shares a queue
# with the first, whose second kernel has to wait for its first one. The kernels of the ninth stream are behind it, so
# they start 1 ms late.
#
# ## Issue order, priorities, host functions
#
# * **Issue order.** Nine streams again, now breadth first: the first kernels of all streams, then the second ones.
#   What waits at the head of a shared queue no longer holds up what could run.
# * **Priorities** act where a kernel's blocks start. A kernel that runs is not interrupted, and a copy engine does not
#   look at them (measured: docs/accuracy.md). Four kernels of 1 ms, each as large as the device, are queued in two
#   streams: at which millisecond does a fifth one start in a third stream?
# * **Host functions** of all streams run on one thread, one after the other. They must not call the runtime (CUDA's
#   manual, `cudaLaunchHostFunc`). samples/07_host_functions.py of the project has two.


# %%
@acl_py.kernel(cost=Cost(us=1_000), exclusive=True)
def whole_device():
    pass


@acl_py.kernel(cost=Cost(us=10), exclusive=True)
def urgent_work():
    pass


async def start_of_the_urgent_one(priority):
    """Queue kernels in two streams, then another in a third; return after how many us that one starts."""
    sim = acl_py.open(device="h200")
    one, other = await acl_py.CreateStream(), await acl_py.CreateStream()
    urgent = await acl_py.CreateStream(priority=priority)
    start = sim.now_ns
    for stream in (one, other, one, other):
        await whole_device[132, stream]()
    await urgent_work[132, urgent]()
    await acl_py.SynchronizeDevice()
    begun = next(op.start_ns for op in sim.trace.ops if op.name == "urgent_work")
    await sim.close()
    return (begun - start) / 1000


print(f"breadth first, 9 streams: {await two_kernels_each(9, breadth_first=True):,.0f} us")
for priority in (0, -5):
    print(f"a kernel of priority {priority:2} starts after {await start_of_the_urgent_one(priority):,.0f} us")

# %% [markdown]
# Breadth first the nine streams take 2 ms, as eight do. The urgent kernel starts as soon as the first kernel ends;
# without its priority it has to wait for a second one. (Into how many chunks should copies be cut?
# samples/sweeps/streams_and_chunks.py of the project tries many.)
#
# **In short:** compare the duration of your kernels with that of a launch (4 to 5 us from Python in the program at the
# end). If they are shorter, make fewer and larger launches, or capture a graph; more streams do not help. What the
# device decides belongs into an IF node.
#
# ## Exercises
#
# Change `mine` or `my_answer` in the cell, run it, and read the result of the check. The solutions are in `solutions/`.
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
    teaching.exercise(right and us < 50, f"{us:,.0f} us, all rows scaled: {right}")


await check_1(mine)


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
    teaching.exercise(right and us < 3_500, f"{us:,.0f} us, 12 kernels for each token: {right}")


await check_2(mine)

# %% [markdown]
# **3.** Without running anything: a step is 100 kernels of 1 us, one after the other. How many steps a second does a
# program make by calls in one stream, and as a graph? An error of 10 % is accepted.

# %% tags=["exercise"]
my_answer = {"calls": 0, "graph": 0}


async def check_3(answer):
    """Compare *answer* with the rates of steps of 100 kernels."""
    rates = {}
    for name in answer:
        sim = acl_py.open(device="h200")
        stream, kernel = await acl_py.CreateStream(), kernel_of(1)
        async with acl_py.capture(stream) as captured:
            for _ in range(100):
                await kernel[4, stream]()
        executable = await acl_py.GraphInstantiate(captured)
        await acl_py.GraphUpload(executable, stream)
        await acl_py.SynchronizeDevice()
        start = sim.now_ns
        for _ in range(20):
            if name == "graph":
                await acl_py.GraphLaunch(executable, stream)
            else:
                for _ in range(100):
                    await kernel[4, stream]()
        await acl_py.SynchronizeDevice()
        rates[name] = 20 * 1e9 / (sim.now_ns - start)
        await sim.close()
    close = all(abs(answer[name] / rate - 1) < 0.1 for name, rate in rates.items())
    teaching.exercise(close, "what does a launch cost the host, and what does a node cost the device?")


await check_3(my_answer)

# %% [markdown]
# ## On your own card
#
# Twenty launches of a kernel that does nothing, by calls and as a graph.
#
# ```python
# import acl_py as acl
#
# async def main():
#     sim, stream = acl.current_simulation(), await acl.CreateStream()
#     text = acl.ptx.compile('extern "C" __global__ void nothing() {}')
#     nothing = (await acl.ptx.load(text))["nothing"]
#
#     async def step():
#         for _ in range(20):
#             await nothing[1, 32, stream]()
#
#     async with acl.capture(stream) as graph:
#         await step()
#     executable = await acl.GraphInstantiate(graph)
#     for name, queue in {"warm": step, "calls": step, "graph": lambda: acl.GraphLaunch(executable, stream)}.items():
#         start = sim.now_ns
#         for _ in range(200):
#             await queue()
#         await acl.SynchronizeStream(stream)
#         print(f"{name}: {200e9 / (sim.now_ns - start):,.0f} steps a second")
#
# acl.run(main, device="cuda:0", trace=False)
# ```
#
# The same calls through cuda-python printed this on an H200 (driver 580, CUDA 13.0):
#
# ```text
# warm: 11,210 steps a second
# calls: 11,640 steps a second
# graph: 85,763 steps a second
# ```
#
# A node takes 0.6 us here, because its kernel does nothing. The model's 1.3 us were measured with kernels that watch a
# clock.
