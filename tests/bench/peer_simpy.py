"""The ring in SimPy, as its user would write it: a host process, and a process with a Store per stream.

A copy engine is a Resource of capacity one, the cores are one of capacity 132. The host pays for each call in simulated
time and waits while a stream holds as many entries as a hardware queue does. An operation starts no earlier than the
latencies allow, so each ends when it ends with us, not only the last. Left out, since this ring can be timed without:
handles and checks, queues that streams share, priorities, errors, traces.
"""

from time import process_time

import numpy as np
import simpy

from tests.bench.ring import D2H_NS, FLOATS, H2D_NS, KERNEL_NS, ONE, PROFILE, SUBMIT_NS, Result, check, rounds_of

H2D, KERNEL, D2H, RECORD, WAIT = range(5)


def run(ops, count):
    rounds = rounds_of(ops, count)
    env = simpy.Environment()
    hosts = [np.full(FLOATS, index % 7, np.float32) for index in range(count)]
    stores = [simpy.Store(env, capacity=PROFILE.queues.depth) for _ in range(count)]
    h2d, d2h = simpy.Resource(env, capacity=1), simpy.Resource(env, capacity=1)
    h2d.free_ns = d2h.free_ns = 0
    cores = simpy.Resource(env, capacity=PROFILE.cores.count)
    ends = [0] * count
    for index, (store, host) in enumerate(zip(stores, hosts, strict=True)):
        env.process(stream(env, store, host, np.empty(FLOATS, np.float32), h2d, d2h, cores, ends, index))
    finished = env.process(host_program(env, stores, rounds))
    begin = process_time()
    env.run(finished)
    seconds = process_time() - begin
    check(hosts, rounds)
    ops = 3 * count * rounds
    return Result("simpy", ops, count, seconds, env.now, sum(ends) / ops)


def host_program(env, stores, rounds):
    costs = PROFILE.host
    timeout = env.timeout
    copy, launch, record, wait = costs.copy, costs.launch, costs.record, costs.wait
    for _ in range(rounds):
        events = []
        for store in stores:
            yield timeout(copy)
            yield store.put((H2D, env.now))
            yield timeout(launch)
            yield store.put((KERNEL, env.now))
            yield timeout(copy)
            yield store.put((D2H, env.now))
            yield timeout(record)
            event = env.event()
            events.append(event)
            yield store.put((RECORD, event))
        for store, event in zip(stores, events[-1:] + events[:-1], strict=True):
            yield timeout(wait)
            yield store.put((WAIT, event))
    last = [env.event() for _ in stores]
    yield timeout(costs.sync)
    for store, event in zip(stores, last, strict=True):
        yield store.put((RECORD, event))
    yield env.all_of(last)
    yield timeout(costs.wake)


def stream(env, store, host, device, h2d, d2h, cores, ends, index):
    timeout, get = env.timeout, store.get
    submit, across, gap = SUBMIT_NS, PROFILE.latency.engines, PROFILE.latency.copy_gap
    end = -across  # of what the next operation comes behind
    while True:
        kind, what = yield get()
        if kind == RECORD:
            what.succeed(end)
            continue
        if kind == WAIT:
            if not what.processed:
                yield what
            end = max(end, what.value)
            continue
        ready = max(what + submit, end + across)
        if ready > env.now:
            yield timeout(ready - env.now)
        if kind == H2D:
            with h2d.request() as turn:
                yield turn
                yield timeout(max(h2d.free_ns - env.now, 0) + H2D_NS)
            h2d.free_ns = env.now + gap
            device[:] = host
        elif kind == KERNEL:
            with cores.request() as turn:
                yield turn
                yield timeout(KERNEL_NS)
            np.add(device, ONE, out=device)
        else:
            with d2h.request() as turn:
                yield turn
                yield timeout(max(d2h.free_ns - env.now, 0) + D2H_NS)
            d2h.free_ns = env.now + gap
            host[:] = device
        end = env.now
        ends[index] += end
