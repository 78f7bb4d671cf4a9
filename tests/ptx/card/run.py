"""Runs the kernels of this folder on a card, and keeps the bytes of their arrays: `python run.py --out DIR`.

It stands alone: it needs cuda-bindings and NumPy. Each NAME.npz of the folder gives DIR/NAME.out.npz. It holds "blob",
and as JSON "results": for each kernel what became of it, and for each array that it changed where its bytes lie in the
blob, compressed, as an exclusive or with what the array was before, and a hash of them.

A kernel that fails spoils its process, so groups of kernels have processes of their own. One that takes too long is
ended with its process. In both cases a new process does the rest of the group.
"""

import argparse
import ctypes
import hashlib
import json
import multiprocessing
import os
import time
import zlib
from multiprocessing.connection import wait
from pathlib import Path

import numpy as np

GROUP = 25  # kernels of a process
SECONDS = 15  # that a kernel may take, with its compilation
START_SECONDS = 60  # that a process may take until its first kernel
BLOB = 15 << 20  # bytes of a result file; beyond, only hashes are kept


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--processes", type=int, default=10)
    words.add_argument("parts", nargs="*")
    given = words.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    here = Path(__file__).parent
    for path in sorted(here.glob("*.npz")):
        if not given.parts or path.stem in given.parts:
            start = time.monotonic()
            counts = run_part(path, given.out / f"{path.stem}.out.npz", given.processes)
            print(f"{path.stem}: {counts} in {time.monotonic() - start:.1f} s", flush=True)


def run_part(path, to, processes):
    """Run the kernels of a file; return how many ended in which way."""
    part = read(path)
    return write(to, part, outcomes(part, processes))


def write(to, part, found):
    """Write what became of jobs: their indices, statuses and arrays. Return how many ended in which way."""
    results, data, size = {}, [], 0
    for index, status, arrays in found:
        kept = []
        for place, digest, changes in arrays:
            is_kept = size + len(changes) <= BLOB
            kept.append([place, digest, size if is_kept else -1, len(changes)])
            if is_kept:
                data.append(changes)
                size += len(changes)
        results[part["jobs"][index]["name"]] = [status, kept]
    blob = np.frombuffer(b"".join(data), np.uint8)
    listing = np.frombuffer(zlib.compress(json.dumps(results).encode()), np.uint8)
    np.savez(to, blob=blob, results=listing)
    counts = {}
    for status, _ in results.values():
        counts[status.partition(":")[0]] = counts.get(status.partition(":")[0], 0) + 1
    return counts


def packed(place, before, after):
    """Return what is kept of an array: which argument it is, the hash of its bytes, and what has changed."""
    digest = hashlib.sha256(after.tobytes()).hexdigest()
    return place, digest, zlib.compress((before ^ after).tobytes(), 6)


def unpacked(before, changes):
    """Return the bytes of an array of which `packed` has kept *changes*."""
    return before ^ np.frombuffer(zlib.decompress(changes), np.uint8)


def read(path):
    """Return the arrays, texts and jobs of a part."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    return {"arrays": arrays, **json.loads(arrays.pop("jobs").tobytes())}


def initial(part, argument):
    """Return the bytes of an array before the launch."""
    kind, given = argument
    if kind == "array":
        return part["arrays"][given].copy()
    if kind == "zeros":
        return np.zeros(given, np.uint8)
    assert kind == "pattern", kind
    return (np.arange(given // 4) % 4).astype(np.int32).view(np.uint8)


# Processes


class Group:
    """A process that runs jobs, and which it has still to run."""

    def __init__(self, part, jobs):
        context = multiprocessing.get_context("fork")
        self.jobs = jobs
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=work, args=(part, jobs, theirs))
        self.process.start()
        theirs.close()
        self.deadline = time.monotonic() + START_SECONDS

    def end(self):
        self.process.kill()
        self.process.join()
        self.pipe.close()


def outcomes(part, processes):
    """Yield for each job its index, its status and its arrays."""
    count = len(part["jobs"])
    todo = [list(range(start, min(start + GROUP, count))) for start in range(0, count, GROUP)]
    groups = []
    while todo or groups:
        while todo and len(groups) < processes:
            groups.append(Group(part, todo.pop()))
        ready = wait([group.pipe for group in groups], timeout=0.2)
        for group in list(groups):
            status = None
            if group.pipe in ready:
                try:
                    index, status_, arrays = group.pipe.recv()
                except EOFError:
                    group.process.join()
                    status = "died"
                else:
                    group.jobs = [each for each in group.jobs if each != index]
                    group.deadline = time.monotonic() + SECONDS
                    yield index, status_, arrays
            elif time.monotonic() > group.deadline:
                status = "slow"
            if status and group.jobs and group.process.exitcode != 3:
                yield group.jobs.pop(0), f"{status}: {group.process.exitcode}", []
            if status:
                group.end()
                groups.remove(group)
                if group.jobs:
                    todo.append(group.jobs)


def work(part, jobs, pipe):
    """Run jobs, in a process of their own; it ends with 3 after a failure that it has reported."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    card = Card()
    for index in jobs:
        job = part["jobs"][index]
        try:
            pipe.send((index, "ok", card.run(part, job)))
        except LoadError as error:
            pipe.send((index, f"load: {error}", []))
        except LaunchError as error:
            pipe.send((index, f"launch: {error}", []))
            pipe.close()
            os._exit(3)
    pipe.close()
    os._exit(0)


# The card


class LoadError(Exception):
    """The driver does not compile a text."""


class LaunchError(Exception):
    """A launch fails."""


class Card:
    """The driver, with one context."""

    def __init__(self):
        from cuda.bindings import driver

        self.driver = driver
        self.do(driver.cuInit(0))
        device = self.do(driver.cuDeviceGet(0))
        self.context = self.do(driver.cuDevicePrimaryCtxRetain(device))
        self.do(driver.cuCtxSetCurrent(self.context))
        self.text, self.module = None, None

    def do(self, answer, error=LaunchError):
        status, *values = answer
        if int(status) != 0:
            raise error(getattr(status, "name", str(status)))
        return values[0] if values else None

    def load(self, text):
        driver = self.driver
        if self.text == text:
            return self.module
        if self.module is not None:
            self.do(driver.cuModuleUnload(self.module))
            self.text = self.module = None
        log = bytearray(2048)
        keys = [driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER, driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        status, module = driver.cuModuleLoadDataEx(text.encode() + b"\0", len(keys), keys, [log, len(log)])
        if int(status) != 0:
            said = bytes(log).split(b"\0")[0].decode(errors="replace")
            raise LoadError(f"{status.name}: {said[:300]}")
        self.text, self.module = text, module
        return module

    def run(self, part, job):
        """Run a kernel on a fresh module; return the arrays that it has changed."""
        driver, text = self.driver, part["texts"][job["text"]]
        if job["is_fresh"]:
            self.text = None
        function = self.do(driver.cuModuleGetFunction(self.load(text), job["entry"].encode()), LoadError)
        values, arrays = [], []
        for place, (kind, given) in enumerate(job["arguments"]):
            if kind == "value":
                values.append(bytes.fromhex(given))
                continue
            before = initial(part, (kind, given))
            address = self.do(driver.cuMemAlloc(max(before.nbytes, 16)))
            self.do(driver.cuMemcpyHtoD(address, before.ctypes.data, before.nbytes))
            arrays.append((place, before, address))
            values.append(int(address).to_bytes(8, "little"))
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        if job["shared"]:
            self.do(driver.cuFuncSetAttribute(function, attribute, job["shared"]))
        held = [ctypes.create_string_buffer(each, len(each)) for each in values]
        pointers = (ctypes.c_void_p * max(1, len(held)))(*(ctypes.addressof(each) for each in held))
        shape = *job["grid"], *job["block"], job["shared"]
        self.do(driver.cuLaunchKernel(function, *shape, 0, ctypes.addressof(pointers), 0))
        self.do(driver.cuCtxSynchronize())
        changed = []
        for place, before, address in arrays:
            after = np.empty_like(before)
            self.do(driver.cuMemcpyDtoH(after.ctypes.data, address, after.nbytes))
            self.do(driver.cuMemFree(address))
            if not np.array_equal(before, after):
                changed.append(packed(place, before, after))
        return changed


if __name__ == "__main__":
    main()
