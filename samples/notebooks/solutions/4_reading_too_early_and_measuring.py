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
# # Solutions of 4
#
# The first two cells are predictions with the mistakes that readers make; the page of the notebook shows them. Each
# other cell goes into the notebook, below the exercise with its number.

# %% tags=["guess"]
prediction = teaching.predict(
    {
        "nothing": 0,
        "StreamQuery(stream)": 0,
        "SynchronizeEvent(before)": 42,
        "work of 50 us": 0,
        "work of 500 us": 42,
        "SynchronizeEvent(behind)": 42,
        "SynchronizeStream(stream)": 42,
    },
    choices=[0, 42],
)

# %% tags=["guess"]
times = teaching.predict({"host clock around the launch": 100, "with SynchronizeStream": 110, "two events": 100})


# %% tags=["solution"]
async def solution_1(stream):
    await acl_py.SynchronizeStream(stream)  # or an event that is recorded behind the copy


await check_1(solution_1)


# %% tags=["solution"]
async def solution_2(sim, stream, launch):
    # The host needs about 6 us for a launch, longer than the short kernel takes. So that the host does not matter, let
    # a long kernel hold the stream until all launches are in the queue.
    @acl_py.kernel(cost=Cost(us=2_000))
    def hold():
        pass

    begin, end = await acl_py.CreateEvent(), await acl_py.CreateEvent()
    await hold[1, stream]()
    await acl_py.RecordEvent(begin, stream)
    for _ in range(100):
        await launch()
    await acl_py.RecordEvent(end, stream)
    await acl_py.SynchronizeEvent(end)
    return await acl_py.EventElapsedTime(begin, end) * 1000 / 100


await check_2(solution_2)


# %% tags=["solution"]
async def solution_3(stream, fetch_first, fetch_second):
    # A second record moves the event: it then stands for the work before the second record. So each needs its own.
    first, second = await acl_py.CreateEvent(), await acl_py.CreateEvent()
    await fetch_first()
    await acl_py.RecordEvent(first, stream)
    await fetch_second()
    await acl_py.RecordEvent(second, stream)
    await acl_py.SynchronizeEvent(first)


await check_3(solution_3)
