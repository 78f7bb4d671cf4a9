"""The examples in docstrings of public names run: indented Python outside the sections Args, Returns and so on.

Those of verbs, in a section Example, are in tests/acl_py/test_api_docstrings.py.
"""

import ast
import importlib
import inspect
import re
import textwrap

import pytest

from tests import forks
from tests.test_public_names import PACKAGES, names_of

HEAD = """\
import asyncio
import zlib
from math import prod

import numpy as np

import acl_py
from acl_py import *
from acl_py import asc, cta, faults
from acl_py.compat.acl import *
from acl_py.explain import *

"""


def indented(text):
    return textwrap.indent(text, "    ")


def awaited(before="", after="", device="tiny"):
    """A program with the example in a coroutine function, between *before* and *after*."""
    body = f"async def main():\n{indented(before)}\n    {{example}}\n{indented(after)}"
    return f"{body}\n\nacl_py.run(main, device={device!r})\n"


def on_cores(kernel):
    """A program with the example in a kernel of AI cores, between two tensors of 128 halves."""
    names = "from acl_py.asc import *\nn, TILE, tiles = 128, 64, 2\n\n@asc.kernel\ndef kernel(x: asc.In, z: asc.Out):\n"
    return f"{names}{indented(kernel)}\n\n{launched('np.float16', 'ascend910b1')}"


def on_threads(kernel):
    """A program with the example in a kernel of 128 threads, between two tensors of 128 numbers."""
    names = "n, TILE, tiles = 100, 128, 1\n\n@cta.kernel(threads=128)\ndef kernel(x: cta.In, y: cta.Out):\n"
    return f"{names}{indented(kernel)}\n\n{launched('np.float32', 'h200')}"


def launched(dtype, device):
    before = f"x, y = [Array(await Malloc(512), {dtype}, (128,)) for _ in range(2)]\nawait Memset(x, 512, 0, 512)\n"
    return awaited(
        f"{before}launch = await kernel[1](x, y)\nawait SynchronizeDevice()\nassert not launch.work.result.findings\n",
        device=device,
    ).replace("    {example}\n", "")


ARRAYS = (
    "stream, host = await CreateStream(), await MallocHost(512)\n"
    "x, y = [Array(await Malloc(512), np.float32) for _ in range(2)]\nawait Memset(x, 512, 0, 512)\n"
)
BUFFERS = "stream, x, y = await CreateStream(), await Malloc(512), await Malloc(512)\nawait Memset(x, 512, 0, 512)\n"
# Kernels that examples launch.
LAYERS = """\
@kernel
def layer(x: In, y: Out): y[:] = x
@kernel
def project(x: InOut): x += 1
@kernel
def work(): pass
"""
SCALE = "@cta.kernel(threads=64)\ndef scale(x: cta.In, y: cta.Out, tile, stages): y[cta.tid] = x[cta.tid] * 2\n"
ADD = "@asc.kernel\ndef add(x: asc.In, y: asc.In, z: asc.Out, tile, buffers): asc.printf('%d', tile)\n"
LOADED = """\
parameters = ".param .u64 x, .param .u64 y, .param .u64 z, .param .u32 n"
text = f".version 8.0\\n.target sm_90\\n.visible .entry add({parameters}) {{ ret; }}"
stream, grid, block, n = await CreateStream(), 4, 256, 128
x, y, z = [await Malloc(512) for _ in range(3)]
"""
IN_CORE = """\
x_gm, z_gm = [asc.GlobalTensor(half).SetGlobalBuffer(each, n) for each in (x, z)]

def load(at, a, b):
    DataCopy(a, x_gm[at * TILE:], TILE)
    DataCopy(b, x_gm[at * TILE:], TILE)

def add(at, a, b, c):
    Add(c, a, b, TILE)

def store(at, c):
    DataCopy(z_gm[at * TILE:], c, TILE)

pipe = TPipe()
{example}
"""
IN_THREADS = """\
i = cta.tid

def load(tile, slot):
    cta.cp_async(slot.at[i], x.at[i], 4)

def compute(tile, slot):
    y[i] = slot[i]

def producer():
    y[i] = 1

consumer = producer
{example}
"""
PLAIN = "{example}\n"
ROWS = """\
@asc.kernel
def rows(x, y, units): asc.printf('%d', len(units[asc.GetBlockIdx()]))

lengths = [64 * row for row in range(1, 33)]
"""
# The program around the example of each name, which stands in the place of {example}.
HCCL = """\
@asc.kernel
def kernel(x: asc.In, gathered: asc.Out, comm, tiling, count):
    {example}

""" + awaited(
    "x, y = [Array(await Malloc(256), np.float16) for _ in range(2)]\nawait Memset(x, 256, 0, 256)\n"
    "(comm,) = await CommInitAll(1)\nlaunch = await kernel[2](x, y, comm, 'tiling', 128)\nawait SynchronizeDevice()\n"
    "assert not launch.work.result.findings\n",
    device="ascend910b1",
).replace("    {example}\n", "")

STAGES = {
    "acl_py.Simulation.fault": awaited("sim = current_simulation()"),
    "acl_py.annotate": LAYERS + awaited(ARRAYS),
    "acl_py.capture": LAYERS + awaited("acl = acl_py\nstream = await CreateStream()"),
    "acl_py.new_event_loop": "async def main(): await asyncio.sleep(1)\n\n{example}\n",
    "acl_py.open": "async def main():\n    {example}\n\nasyncio.run(main())\n",
    "acl_py.run": PLAIN,
    # A forked run of the tests has no file that processes of a pool could import.
    "acl_py.sweep": "from functools import partial\nacl_py.sweep = partial(acl_py.sweep, workers=1)\n{example}\n",
    "acl_py.simulate": "async def main():\n    {example}\n\nasyncio.run(main())\n",
    "acl_py.asc": awaited(f"{BUFFERS}length = 128", device="ascend910b1"),
    "acl_py.asc.Balancer": ROWS + awaited(ARRAYS, device="ascend910b1"),
    "acl_py.asc.Hccl": HCCL,
    "acl_py.asc.Pipeline": on_cores(IN_CORE),
    "acl_py.asc.TilingKey": "from acl_py.asc import TilingKey\n{example}\nassert KEY.choice(110)['kind'] == 'split'\n",
    "acl_py.asc.kernel": PLAIN,
    "acl_py.asc.tune": f"{ADD}x, y, z = [np.ones(64, np.float16) for _ in range(3)]\n{{example}}\n",
    "acl_py.cta": awaited(BUFFERS, device="h200"),
    "acl_py.cta.Mbarrier": on_threads("{example}\ny[cta.tid] = 1\n"),
    "acl_py.cta.Stages": on_threads(IN_THREADS),
    "acl_py.cta.kernel": awaited(BUFFERS, device="h200"),
    "acl_py.cta.roles": on_threads(IN_THREADS),
    "acl_py.cta.tune": f"{SCALE}x, y = [np.ones(64, np.float32) for _ in range(2)]\n{{example}}\n",
    "acl_py.cta.where": on_threads("i = cta.tid\ny[i] = 0\n{example}\n"),
    "acl_py.ptx": awaited(LOADED, device="h200"),
    "acl_py.ptx.load": awaited("import acl_py\n" + LOADED, device="h200"),
    "acl_py.compat.acl.Parameter": PLAIN,
    "acl_py.compat.acl.Tensor": PLAIN,
    "acl_py.compat.acl.handle_of": "acl = install()\n" + awaited(device="ascend910b3"),
    "acl_py.compat.acl.install": PLAIN,
    "acl_py.compat.cuda.install": PLAIN,
    "acl_py.compat.acl.register_decoder": PLAIN,
    "acl_py.compat.acl.register_encoder": PLAIN,
    "acl_py.compat.acl.register_kernel": PLAIN,
    "acl_py.compat.acl.register_model": PLAIN,
    "acl_py.compat.acl.register_op": PLAIN,
    "acl_py.explain.AsyncProfiler": LAYERS + awaited(ARRAYS),
}


def examples_of(docstring):
    """The indented blocks of *docstring* outside its sections that are Python."""
    outside = re.sub(r"^[A-Z][a-z]+:\n(?:(?: +.*)?\n)+", "", f"{docstring}\n", flags=re.MULTILINE)
    blocks = [textwrap.dedent(block) for block in re.findall(r"\n\n((?:    .*\n+)+)", outside)]
    return list(filter(is_python, blocks))


def is_python(block):
    try:
        compile(block, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError:
        return False
    return True


def examples():
    """The examples of packages and of their names, each once, by the first name that has it."""
    found = {}
    for package in (package for package in PACKAGES if package.startswith("acl_py")):
        module = importlib.import_module(package)
        for name, thing in {"": module, **names_of(package)}.items():
            methods = (
                [each for each in vars(thing).values() if inspect.isfunction(each)] if inspect.isclass(thing) else []
            )
            for each in (thing, *methods):
                whole = f"{package}.{name}".rstrip(".") + (f".{each.__name__}" if each in methods else "")
                if inspect.ismodule(each) or inspect.isclass(each) or inspect.isroutine(each):
                    texts = [text for text in examples_of(inspect.getdoc(each) or "") if text not in found.values()]
                    found |= dict(zip([whole] * len(texts), texts, strict=True))
    return found


EXAMPLES = examples()


def test_every_example_has_its_stage():
    assert EXAMPLES.keys() == STAGES.keys()


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", STAGES)
def test_an_example_runs(name, tmp_path):
    around, example = STAGES[name], EXAMPLES[name]
    text = re.sub(r"^( *)\{example\}\n", lambda place: textwrap.indent(example, place[1]), around, flags=re.MULTILINE)
    (tmp_path / "example.py").write_text(HEAD + text, encoding="utf-8")
    done = forks.run("example.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
