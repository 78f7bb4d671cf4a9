"""The simulated device: streams, engines, memory and AI cores in integer nanoseconds; no asyncio, no wall clock.

From the top down; each line imports only from those below it:

    device                          one device: its engines, contexts and memory
    choices                         what a run may do in another way than the model
    contexts chains faults          contexts and their failures; chains of waits for reports; fault rules
    engines/                        copies and host functions; blocks on cores; pageable memory; bodies in threads
    graphs/                         work that is described once and launched many times; captures
    collectives/                    work of several devices that takes place together: ranks, calls that meet, results
    events signals                  events; notifies and values to wait for
    streams                         first in, first out, and the default-stream rule
    queues steps finishing          hardware queues; entries in a stream that take no engine; the end of an op
    ops                             Op: a piece of work in a stream, and its completion
    gaps                            how long after a completion an operation can start
    overlay speeds                  the values of another host, laid over a profile; faster copies and links
    profile                         what a card has and how fast it is; the cards are in profiles/
    curves                          the time of a transfer by its size
    aicore/                         kernels in the manner of Ascend C, run and timed
    cta/                            kernels of thread blocks, run and timed
    library/                        kernels of cuBLAS and torch, timed by shape
    links/                          how devices are joined, and what their transfers share
    ptx/                            kernels in CUDA's PTX, run on arrays of lanes
    sm/                             the SMs that blocks of threads run on, and their times
    kernel/                         what all kernels on simulated cores share
    touches                         the bytes that a launch has used, as arrays of ranges
    twins                           copies of work, for another operation
    core_kernels                    kernels whose time is known only from running them
    work                            what can be asked of a device: copies, fills, kernels, host functions
    memory/                         device memory, host memory, allocations and pools
    rules observe ids               which call waits for what; observers; what a device has a limited number of
    error_codes                     the numbers that vendors give to failures
    scheduler                       the clock, and the heap of what will happen
    completions dtypes              what can be waited for; the dtypes of NumPy and ml_dtypes
    display                         what notebooks show of a stream, an event, memory, a graph
    flows                           transfers that share what they cross, max-min fair
    grids                           all combinations of some values, and the table of what came of them
    integers names                  numbers that a caller gives; what a program calls its streams and memory
    errors frozen handles compiled  errors, and text from outside made safe to print; dataclasses that are quick to
                                    define; what a program holds; which core runs

Words, each with one meaning:

    host            a task or thread that makes calls
    verb            a public coroutine of acl_py
    work            a description of what is to be done: which bytes, how many blocks
    op              work queued in a stream; it is also the completion of that work
    completion      something that is done once, at a time, and can be waited for
    tail            the completion that the next op of a stream waits for
    backlog         the completion of everything queued in a stream so far, which a host waits for
    turn            the completion that an operation given to a stream now waits for: the backlog, and what the
                    default-stream rule adds
    context         the streams and events that belong together on a device; each host has a current context
    legacy stream   CUDA's default stream, which waits for the blocking streams of its context, and they for it
    blocking stream a stream that keeps this order with the legacy stream, unless it was created as non-blocking
    home            of a stream or an event: its context, while a verb may use it without a second look; else None
    bound           of a stream: its work waits until a model runs it, and hosts do not wait for it
    blocker         a completion that an op has to wait for; `Op.blockers` counts those that are not done
    label           the kind and name of a piece of work in the trace, such as h2d, and its lane
    lane            the part of the device that takes a kind of work; a stream has a hardware queue for each
    hardware queue  a first-in, first-out queue of an engine, shared by several streams
    place           room for one op in a hardware queue; a free place may be reserved for a host that waits
    head            the first op of a hardware queue; no op passes it
    engine          takes ops from the heads of its queues and runs them
    grant           an engine starts all ops that can start, once the completions of the instant are in
    instant         everything that happens at the same nanosecond
    settled         no engine can start anything more at this instant
    step            an entry in a stream that takes no engine, such as a wait for a notify
    choice point    a place where a run may differ from the model, if its scheduler has `choices`
    scope           what a task sees: its runtime and its current context
    site            a line of the user's code
    alert           a flag of a context: each call has to look closer before it begins
"""

from device_model.compiled import put_in_front as _put_in_front

_put_in_front(__name__, __path__)
