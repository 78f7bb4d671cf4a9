"""Kernels of public repositories: how many of them compile, load and run.

`python -m tests.ptx corpus DIR [NAME ...]`: DIR holds a checkout of each repository of `REPOSITORIES`, in a folder with
the last part of its name. Nothing is fetched. The kernels are strings of CUDA C in Python files, and files of CUDA C
without the functions of the host. NVRTC (the wheels cuda-bindings and nvidia-cuda-nvrtc) compiles them; headers of the
toolkit are searched in the folders of the variable CUDA_HEADERS, with a colon between them. The folder DIR/.ptx keeps
what was compiled.

Each kernel is loaded, and launched with arguments that are made up (`trying`): "ran" does not say that the values are
right. Kernels of one source share the variables of their module, as in a program that loads it once. "refused" has an
instruction that is not supported, or a function that is not there; "crashed" is a mistake of ours.
"""

import hashlib
import multiprocessing
import os
import re
import sys
import traceback
from collections import Counter
from pathlib import Path

import numpy as np

try:
    from cuda.bindings import nvrtc
except ImportError:
    nvrtc = None  # what was compiled before can still run
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.parser import parse
from tests.ptx import sources, trying

REPOSITORIES = {
    "BBuf/how-to-optim-algorithm-in-cuda": "10a3a8d243037e2544686eb673fda86fba23143f",
    "KernelTuner/kernel_tuner": "96a6abc1019179397753c4afede9149a80aec369",
    "NVIDIA/cccl": "571f2fc3bc53cd710e306ad43d58995c1fe4219f",
    "NVIDIA/cuda-samples": "c94ff366aed18c797b8a85dfaac7817b0228b420",
    "NVIDIA/numba-cuda": "b18b944b2f88a4e840424e49a1b0d29488263b40",
    "R100001/Programming-Massively-Parallel-Processors": "a972fb50d5d8695844ab3d5621e3ec54c2388367",
    "astra-toolbox/astra-toolbox": "bf7acada528a85c5841979cc8a6473ec075dfcb7",
    "chainer/chainer": "a8e15cbe55a90854a3918b8b5a976abbbff9ec94",
    "cupy/cupy": "6b6d9563c4f7410cd1866a11b2f71a60dd45a68c",
    "explosion/thinc": "20eec35566997d5272d083be1f1a0ec9006934ff",
    "gpu-mode/lectures": "7cb40f67ad68f59a7c13e9a8c4d8a816a3c68e7a",
    "inducer/pycuda": "19bed9035edb9990b2928e297125d8e9d470130b",
    "karpathy/llm.c": "f1e2ace651495b74ae22d45d1723443fd00ecd3a",
    "lebedov/scikit-cuda": "3c1338c4ecfa218d664c73dc70746862785ae555",
    "rapidsai/cucim": "043cf75452da53f6c0d3cb495c75e857d411dbd6",
    "rapidsai/cuml": "342457bcb82bbdd6aadab6dc37fb808a838b1c31",
    "rapidsai/cusignal": "136453a3c8ef381f502a1edd51ca741f6c159f4a",
    "siboehm/SGEMM_CUDA": "60cba6f9b20a198116c76f18de8047f44df8c8b8",
    "xlite-dev/LeetCUDA": "cb6a0497e829741fc5e3ad5e43a5beed0d85edcd",
}
COLUMNS = ("found", "compiled", "kernels", "loaded", "ran", "stopped", "slow", "refused", "crashed", "textures")
_OPTIONS = ("--gpu-architecture=sm_90", "-lineinfo", "-default-device", "--std=c++17", "-w")
_TEXTURES = re.compile(r"^\s*(?:@!?%p\d+\s+)?(?:tex|tld4|txq|suld|sust|sured|suq)\.", re.MULTILINE)
_COMPILER_SECONDS = 120
_PREFIX = """
typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t; typedef long long int64_t; typedef unsigned long long uint64_t;
"""


def main(words):
    if not words:
        sys.exit("usage: python -m tests.ptx corpus DIR [NAME ...]")
    folder, names = Path(words[0]), words[1:]
    trying.watch_time()
    total, whys = Counter(), Counter()
    _print(f"{'repository':52}{'commit':11}{''.join(f'{each:>9}' for each in COLUMNS)}")
    for repository, commit in sorted(REPOSITORIES.items()):
        name = repository.partition("/")[2]
        if not (folder / name).is_dir() or (names and name not in names):
            continue
        counts = _repository(folder, name, whys)
        total += counts
        _print(f"{repository:52}{commit[:9]:11}{''.join(f'{counts[each]:9}' for each in COLUMNS)}")
    _print(f"{'all':63}{''.join(f'{total[each]:9}' for each in COLUMNS)}")
    wanted = total["kernels"] - total["textures"]
    if wanted:
        loaded, ran = (100 * (total[each]) / wanted for each in ("loaded", "ran"))
        _print(
            f"of {wanted} kernels without textures and surfaces {loaded:.1f} % load, and {ran:.1f} % run to their end"
        )
    for why, count in whys.most_common():
        _print(f"{count:6}  {why}")


def _print(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _repository(folder, name, whys):
    counts = Counter()
    for where, ptx in texts(folder, name):
        counts["found"] += 1
        if ptx is not None:
            counts["compiled"] += 1
            _texts(ptx, where, counts, whys)
    return counts


def texts(folder, name):
    """Yield for each source in a checkout the file that has it, and its PTX; None if it does not compile."""
    for path in sorted((folder / name).rglob("*")):
        if path.suffix not in (".py", ".cu", ".cuh") or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if "__global__" not in text and "ElementwiseKernel" not in text:
            continue
        where = str(path.relative_to(folder))
        given = list(sources.python_sources(text)) if path.suffix == ".py" else [text]
        for source in given:
            yield where, _compiled(source, path, folder)


# Compiling


def _compiled(source, path, folder):
    """The PTX of a source, of the first way that compiles; None if none does."""
    clean = sources.without_host_headers(source)
    ways = [source, _PREFIX + clean]
    if path.suffix != ".py":
        ways.append(_PREFIX + sources.kernels_of(clean))
    elif "{{" in source or "%%" in source or "%(" in source:
        ways.append(_PREFIX + clean.replace("{{", "{").replace("}}", "}").replace("%%", "%"))
    key = hashlib.sha256("\0".join([*ways, str(path.parent.relative_to(folder)), *_OPTIONS]).encode()).hexdigest()
    kept = folder / ".ptx" / f"{key[:32]}.ptx"
    if kept.exists():
        return kept.read_text(encoding="utf-8") or None
    if nvrtc is None:
        sys.exit("the wheels cuda-bindings and nvidia-cuda-nvrtc are missing")
    ptx = None
    for way in ways:
        ptx = ptx or _nvrtc(way, path, sources.instances(way))
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(ptx or "", encoding="utf-8")
    return ptx


def _nvrtc(source, path, names):
    """The PTX of a source; None if it does not compile. Some sources end the compiler, so it has its own process."""
    headers = [each for each in os.environ.get("CUDA_HEADERS", "").split(":") if each]
    options = [*_OPTIONS, *(f"--include-path={each}" for each in [str(path.parent), *headers])]
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_compile, args=(theirs, source, options, names))
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(_COMPILER_SECONDS) else None
    except EOFError:
        return None
    finally:
        process.kill()
        process.join()


def _compile(pipe, source, options, names):
    pipe.send(_ptx(source, options, names) or (_ptx(source, options, []) if names else None))


def _ptx(source, options, names):
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    for name in names:
        nvrtc.nvrtcAddNameExpression(program, name.encode())
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [each.encode() for each in options])
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        return None
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = b" " * size
    nvrtc.nvrtcGetPTX(program, text)
    ptx = text.decode(errors="replace").rstrip("\0")
    return ptx if ".entry" in ptx else None


# Loading and running


def _texts(text, where, counts, whys):
    try:
        module = parse(text)
        entries = list(module.entries)
    except PtxError as error:
        counts["kernels"] += 1
        counts["refused"] += 1
        whys[f"refused: {_shape(error.what)}  ({where})"] += 1
        return
    held = trying.variables_of(module)
    for name in entries:
        counts["kernels"] += 1
        try:
            with np.errstate(all="ignore"):
                outcome, why, _ = trying.outcome_in(module, name, held)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            outcome, why = "crashed", f"{type(error).__name__}: {error} in {Path(last.filename).name}:{last.lineno}"
        if outcome == "refused" and _TEXTURES.search(text):
            outcome = "textures"
        if outcome not in ("refused", "textures"):
            counts["loaded"] += 1
        counts[outcome] += 1
        if outcome in ("refused", "crashed", "slow"):
            whys[f"{outcome}: {_shape(why)}  ({where}{f' {name}' if outcome != 'refused' else ''})"] += 1


def _shape(text):
    return re.sub(r"%\w+", "%r", text)[:150]
