"""Pools of processes, which end with the process that made them."""

import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor
from threading import Thread


def pool_of(workers: int) -> ProcessPoolExecutor:
    """Return a new pool. Its processes import the modules of what they run, as Python does without a fork."""
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _follow_parent)


def stop(pool: ProcessPoolExecutor) -> None:
    """End a pool at once: what still runs is not wanted any more."""
    processes = list((pool._processes or {}).values())  # there is no public way to end them
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
    for process in processes:
        process.join()


def _follow_parent() -> None:
    """Leave Ctrl-C to the process that has made the pool, which ends its workers; end when it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
