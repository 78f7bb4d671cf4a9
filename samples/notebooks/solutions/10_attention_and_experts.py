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
# # Solutions of 10
#
# The first cell is a prediction with the mistakes that readers make; the page of the notebook shows it. Each other cell
# goes into the notebook, below the exercise with its number.

# %% tags=["guess"]
prediction = teaching.predict(
    {
        "attention, one stream": 384,
        "attention, two streams, one buffer": 244,
        "attention, two streams, two buffers": 244,
        "experts, one stream": 750,
        "experts, eight streams": 200,
    }
)


# %% tags=["solution"]
async def solution_1(streams, run_expert):
    begin = await acl_py.CreateEvent()
    await acl_py.RecordEvent(begin, streams[0])
    for number, stream in enumerate(streams):
        await acl_py.StreamWaitEvent(stream, begin)
        await run_expert(number, stream)
    for stream in streams[1:]:
        done = await acl_py.CreateEvent()
        await acl_py.RecordEvent(done, stream)
        await acl_py.StreamWaitEvent(streams[0], done)


await check(solution_1, streams=8, limit=400)


# %% tags=["solution"]
async def solution_2(streams, run_expert):
    # The largest first, each to the stream that has the least to do.
    busy, order = [0] * len(streams), sorted(range(len(TOKENS)), key=lambda number: -TOKENS[number])
    place = {}
    for number in order:
        place[number] = busy.index(min(busy))
        busy[place[number]] += TOKENS[number]
    numbers = iter(order)

    async def run(_, __):
        number = next(numbers)
        await run_expert(number, streams[place[number]])

    await fork_and_join(streams, run)


await check(solution_2, streams=3, limit=330)

# %% tags=["solution"]
# The copy is the longer one now: 8 copies of about 20 us, then the last kernel. Launches and events take some 30 us.
await check_3(8 * 20 + 10 + 30)
