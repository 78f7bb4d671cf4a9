"""The ring in SimPy, as its user would write it: a host process, and a process with a Store per stream.

A copy engine is a Resource of capacity one, the cores are one of capacity 132. The host pays for each call in
simulated time and waits while a stream holds as many entries as a hardware queue does. Left out, since this ring can be
timed without: handles and checks, queues that streams share, the latencies between engines, priorities, errors, traces.
"""

from time import process_time

import numpy as np
import simpy

from tests.bench.ring import D2H_NS, FLOATS, H2D_NS, KERNEL_NS, ONE, PROFILE, Result, check, rounds_of

H2D, KERNEL, D2H, RECORD, WAIT = range(5)


def run(ops, count):
    rounds = rounds_of(ops, count)
    env = simpy.Environment()
    hosts = [np.full(FLOATS, index % 7, np.float32) for index in range(count)]
    stores = [simpy.Store(env, capacity=PROFILE.queues.depth) for _ in range(count)]
    h2d, d2h = simpy.Resource(env, capacity=1), simpy.Resource(env, capacity=1)
    cores = simpy.Resource(env, capacity=PROFILE.cores.count)
    for store, host in zip(stores, hosts, strict=True):
        env.process(stream(env, store, host, np.empty(FLOATS, np.float32), h2d, d2h, cores))
    finished = env.process(host_program(env, stores, rounds))
    begin = process_time()
    env.run(finished)
    seconds = process_time() - begin
    check(hosts, rounds)
    return Result("simpy", 3 * count * rounds, count, seconds, env.now)


def host_program(env, stores, rounds):
    costs = PROFILE.host
    timeout = env.timeout
    copy, launch, record, wait = costs.copy, costs.launch, costs.record, costs.wait
    for _ in range(rounds):
        events = []
        for store in stores:
            yield timeout(copy)
            yield store.put((H2D, None))
            yield timeout(launch)
            yield store.put((KERNEL, None))
            yield timeout(copy)
            yield store.put((D2H, None))
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


def stream(env, store, host, device, h2d, d2h, cores):
    timeout, get = env.timeout, store.get
    while True:
        kind, event = yield get()
        if kind == H2D:
            with h2d.request() as turn:
                yield turn
                yield timeout(H2D_NS)
            device[:] = host
        elif kind == KERNEL:
            with cores.request() as turn:
                yield turn
                yield timeout(KERNEL_NS)
            np.add(device, ONE, out=device)
        elif kind == D2H:
            with d2h.request() as turn:
                yield turn
                yield timeout(D2H_NS)
            host[:] = device
        elif kind == RECORD:
            event.succeed()
        elif not event.processed:
            yield event
