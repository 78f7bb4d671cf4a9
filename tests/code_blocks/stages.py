"""The stage of each block: what is around it, which files lie beside it, and which command runs it."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

HERE = Path(__file__).parent
NONE: Mapping[str, str] = MappingProxyType({})


class Stage(NamedTuple):
    """Where a block runs.

    Attributes:
        command: What bash runs, in a new folder with the `samples` of the project; {block} is the block.
        name: The file that the block becomes, if it is one.
        around: The text of this file: {block} is the block, {indented} the same in a function.
        files: Other files, by name.
        says: What the command prints somewhere.
        codes: The exit codes of those commands that do not end with 0.
        is_text: Whether the block is what the command prints.
        variables: Variables of the command.
        needs: Packages without which the block is skipped.
    """

    command: str = "{block}"
    name: str = ""
    around: str = "{block}"
    files: Mapping[str, str] = NONE
    says: str = ""
    codes: tuple[int, ...] = ()
    is_text: bool = False
    variables: Mapping[str, str] = NONE
    needs: tuple[str, ...] = ()


def native(before: str, after: str = "", options: str = "device='tiny'", says: str = "") -> Stage:
    """A block that awaits: in a coroutine function, between *before* and *after*."""
    head = "import numpy as np\nimport acl_py\nimport acl_py as acl\nfrom acl_py import *\nfrom pipeline import *\n\n"
    around = f"{head}async def main():\n{before}{{indented}}{after}\nacl_py.run(main, {options})\n"
    return Stage("python block.py", "block.py", around, {"pipeline.py": PIPELINE}, says)


# A program of a sweep.
UPLOAD = """\
import acl_py as acl


async def upload(streams, chunk):
    made = [await acl.CreateStream() for _ in range(streams)]
    pinned, buffer = await acl.MallocHost(1 << 22), await acl.Malloc(1 << 22)
    for index, start in enumerate(range(0, 1 << 22, chunk)):
        part, stream = slice(start, start + chunk), made[index % streams]
        await acl.MemcpyAsync(buffer[part], chunk, pinned[part], chunk, acl.MemcpyKind.HOST_TO_DEVICE, stream)
    await acl.SynchronizeDevice()
"""

SWEPT = """\
import json
import os
import sys

import acl

acl.rt.set_device(0)
batch = int(sys.argv[1].partition("=")[2])
buffers = [acl.rt.malloc(batch * 1024, 0)[0] for _ in range(int(os.environ["STREAMS"]))]
for buffer in buffers:
    acl.rt.free(buffer)
print(json.dumps({"images": batch}))
"""

# Two copies and a kernel, which overlap and are in order.
PIPELINE = """\
import numpy as np

import acl_py as acl


@acl.kernel(cost=acl.Cost(us=2))
def square(x: acl.InOut):
    np.multiply(x, x, out=x)


async def pipeline():
    host, copies, kernels = await acl.MallocHost(8192), await acl.CreateStream(), await acl.CreateStream()
    device, copied = await acl.Malloc(8192), await acl.CreateEvent()
    host.numpy(np.float32)[:] = 3
    await acl.MemcpyAsync(device, 4096, host, 4096, acl.MemcpyKind.HOST_TO_DEVICE, copies)
    await acl.RecordEvent(copied, copies)
    await acl.StreamWaitEvent(kernels, copied)
    await square[8, kernels](acl.Array(device[:4096], np.float32))
    await acl.MemcpyAsync(device + 4096, 4096, host + 4096, 4096, acl.MemcpyKind.HOST_TO_DEVICE, copies)
    await acl.SynchronizeDevice()
    await acl.MemcpyAsync(host, 4096, device, 4096, acl.MemcpyKind.DEVICE_TO_HOST, kernels)
    await acl.SynchronizeStream(kernels)
    return host.numpy(np.float32)[0]
"""
# What `import pipeline` of a script of acl finds: nothing is left behind.
PIPELINE_OF_ACL = """\
import acl


def run():
    acl.init()
    acl.rt.set_device(0)
    acl.rt.reset_device(0)
    return acl.finalize()
"""
RACY = """\
import asyncio

import acl_py as acl


async def main():
    host, device = await acl.MallocHost(4096), await acl.Malloc(4096)
    host.numpy()[:] = 1
    one, other = await acl.CreateStream(), await acl.CreateStream()
    await acl.MemcpyAsync(device, 4096, host, 4096, acl.MemcpyKind.HOST_TO_DEVICE, one)
    await acl.MemcpyAsync(host, 4096, device, 4096, acl.MemcpyKind.DEVICE_TO_HOST, other)
    await acl.SynchronizeDevice()
    await acl.Free(device)
    await acl.FreeHost(host)


acl.run(main, device="tiny")
"""
PROGRAM = """\
{"id": "p", "buffers": {"d": {"space": "device", "bytes": 4096}, "h": {"space": "pinned", "bytes": 4096}},
 "streams": {"A": {}, "B": {}},
 "steps": [{"op": "memcpy_async", "id": "in", "dst": "d", "src": "h", "bytes": 4096, "stream": "A"},
           {"op": "memcpy_async", "id": "out", "dst": "h", "src": "d", "bytes": 4096, "stream": "B"},
           {"op": "launch", "id": "k", "stream": "A", "us": 10}, {"op": "sync_device"}]}
"""
SET_UP = "import acl\nacl.init()\nacl.rt.set_device(0)\n"
# It loads the model of a page, and gives back what the model takes.
LOAD_MODEL = (
    f"{SET_UP}model, ret = acl.mdl.load_from_file('resnet50.om')\nprint('loaded:', ret == 0)\nacl.mdl.unload(model)\n"
)
LOAD_KERNEL = (
    f"{SET_UP}binary, ret = acl.rt.binary_load_from_file('add_custom.o', [])\n"
    "function, ret = acl.rt.binary_get_function(binary, 'add_custom')\nprint('loaded:', ret == 0)\n"
)
INFER_OF_MODEL = "import numpy as np\n\n\ndef infer(data):\n    return np.zeros((len(data), 1000), np.float32)\n"
ADD_CUSTOM = "def add_custom(x, z, length):\n    z[...] = x + x\n"
CODE = {
    "infer.py": LOAD_MODEL.replace("'resnet50.om'", "'models/resnet50.om'"),
    "models/resnet50.om": "",
    "models/resnet50.om.toml": 'compute = "resnet50:infer"\n'
    '[[inputs]]\nname = "data"\ndtype = "float32"\ndims = [1]\n'
    '[[outputs]]\nname = "prob"\ndtype = "float32"\ndims = [1]\n',
    "models/resnet50.py": "import preprocess\nimport scipy\n\n\ndef infer(data): ...\n",
    "models/preprocess.py": "",
    "site/scipy/__init__.py": "".join(f"import scipy.part{number}\n" for number in range(13)),
    **{f"site/scipy/part{number}.py": "" for number in range(13)},
}
INFER = {"infer.py": (HERE / "infer.py").read_text(encoding="utf-8")}
WITH_MODELS = "ln -s samples/acl/models models; "
TEST_PIPELINE = {"conftest.py": "", "pytest.ini": "[pytest]\nasyncio_mode = auto\n"}
PYTEST = "pytest -q -p no:cacheprovider -p no:randomly test_block.py"

# A program for CUDA that needs no package: it sets bytes of the device, and reads them again.
OF_CUDA = """\
import ctypes
import sys

cuda, context, memory, found = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()
codes = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)]
codes += [cuda.cuMemAlloc_v2(ctypes.byref(memory), 8), cuda.cuMemsetD8_v2(memory, 5, 8)]
codes += [cuda.cuMemcpyDtoH_v2(ctypes.byref(found), memory, 8), cuda.cuMemFree_v2(memory)]
print(sys.argv[1:], codes, hex(found.value))
"""
CUDA_SAYS = "[0, 0, 0, 0, 0, 0, 0] 0x505050505050505"

# A program for a card, with the simulated driver in place of one.
ON_CARD = """import acl_py, acl_py.compat.cuda
acl_py.compat.cuda.install(device="h200")
async def main():
    await acl_py.Free(await acl_py.Malloc(64))
    print("on", acl_py.current_simulation().runtime.profile.name)
"""

# Kernels that say what computes them on a card: both run on the model, and the one in CUDA C on the simulated driver.
OF_CARD = """import os, numpy as np, acl_py, acl_py.compat.cuda
if "ACL_PY_DEVICE" in os.environ:
    acl_py.compat.cuda.install(device="h200")
async def main():
    values, arrays = np.arange(1, 5, dtype=np.float32), []
    for _ in range(3):
        arrays.append(acl_py.Array(await acl_py.Malloc(16), np.float32, SHAPE))
        await acl_py.Memcpy(arrays[-1], 16, values, 16, acl_py.MemcpyKind.DEFAULT)
    await LAUNCH
    await acl_py.Memcpy(values, 16, arrays[-1], 16, acl_py.MemcpyKind.DEFAULT)
    print(*values)
"""
SCALED = OF_CARD.replace("SHAPE", "4").replace("LAUNCH", "scale[1](*arrays[1:], 4, 2.5)")
MULTIPLIED = OF_CARD.replace("SHAPE", "(2, 2)").replace("LAUNCH", "multiply[1](*arrays)")

# The scripts that README, and the front page in its tabs, show, each with what `acl-py run` prints of it.
SHOWN = {"README": HERE.parent.parent / "README.md", "index": HERE.parent.parent / "docs" / "index.md"}
SCRIPT = re.compile(r"^```python\n([^`]*)^```\n+```console\n\$ acl-py (run [^\n]*?(\w+\.py))\n", re.MULTILINE)
SCRIPTS = [
    (page, *found.groups()) for page, path in SHOWN.items() for found in SCRIPT.finditer(path.read_text("utf-8"))
]

# By the page, and by the first 50 characters of the block.
STAGES: dict[tuple[str, str], Stage] = {
    ("README", "pip install acl-py"): Stage(says="us"),
    ("index", "pip install acl-py                # Python 3.11 or"): Stage(says="us"),
    **{
        (page, first[:50]): Stage(
            f"python -m acl_py {command} > out 2> err; echo '$ acl-py {command}'; cat out err",
            files={name: script},
            needs=() if "import acl" in script else ("numba_cuda",),
            is_text=first.startswith("$"),
        )
        for page, script, command, name in SCRIPTS
        for first in (script.partition("\n")[0], f"$ acl-py {command}")
    },
    ("cuda", "acl-py run vector_add.py --size 5000   # arguments"): Stage(
        files={"vector_add.py": OF_CUDA, "pytest.ini": "[pytest]", "test_it.py": "def test_i(): import vector_add"},
        says=f"['--size', '5000'] {CUDA_SAYS}",
    ),
    ("cuda", 'python -c "import device_model, shutil; shutil.cop'): Stage(
        files={"script.py": "import acl_py as acl\n\n\nasync def main():\n    pass\n\n\nprint(acl.run(main))\n"},
        says="None",
    ),
    ("cuda", "import acl_py.compat.cuda"): Stage(
        "python block.py", "block.py", f"{{block}}\n{OF_CUDA}", says=CUDA_SAYS
    ),
    ("card", 'acl_py.run(main, device="h200")  # the model, in a'): Stage(
        "python block.py", "block.py", f"{ON_CARD}{{block}}", says="on NVIDIA H200", needs=("cuda.bindings",)
    ),
    ("card", "ACL_PY_DEVICE=cuda:0 ACL_PY_BODIES=host python tra"): Stage(
        files={"training_loop.py": f"{ON_CARD}acl_py.run(main)"}, says="on NVIDIA H200", needs=("cuda.bindings",)
    ),
    ("card/machine", "acl-py calibrate -o mine.toml"): Stage(  # it needs a card and its time
        "sed -E 's/(acl-py [a-z]+).*/\\1 --help/' block.sh > here.sh; . ./here.sh",
        "block.sh",
        says="Usage: acl-py predict",
    ),
    ("card/bodies", 'SCALE = """'): Stage(
        "python block.py; XDG_CACHE_HOME=$PWD ACL_PY_DEVICE=cuda:0 python block.py",
        "block.py",
        f"{SCALED}\n{{block}}\nacl_py.run(main)\n",
        says="2.5 5.0 7.5 10.0\n2.5 5.0 7.5 10.0\n",
        needs=("cuda.bindings",),
    ),
    ("card/bodies", "def multiplied(stream, a, b, c):"): Stage(
        "python block.py", "block.py", f"{MULTIPLIED}\n{{block}}\nacl_py.run(main)\n", says="7.0 10.0 15.0 22.0"
    ),
    ("acl", "acl-py run infer.py --images data/           # arg"): Stage(
        files={"infer.py": f"import sys\n{SET_UP}print(sys.argv[1:])\n", "package/infer.py": "print('module')\n"},
        says="['--images', 'data/']",
    ),
    ("acl", "acl-py: ascend910b3, rules acl: 847.8 us of simula"): Stage(
        f"{WITH_MODELS} acl-py run infer.py", files=INFER, is_text=True
    ),
    ("acl/running", "begin = time.perf_counter()"): Stage(
        "acl-py run --clock simulated block.py",
        "block.py",
        f"import time\n{SET_UP}stream, _ = acl.rt.create_stream()\n{{block}}",
        says="e-06\n",
    ),
    ("acl/running", "acl-py run -m jupyter lab"): Stage(
        "sed s:/srv:$PWD:g block.sh > here.sh; . ./here.sh; python -c 'import acl; print(acl)'",
        "block.sh",
        files={"jupyter.py": "import acl\n", "operators.py": "", "models/none": ""},
        says="(acl_py.compat.acl)",
    ),
    ("acl/running", "acl-py: on a card this would hang"): Stage(
        "acl-py run samples/acl/hanging/in_a_thread.py", is_text=True, codes=(3,)
    ),
    ("acl/running", "import pytest"): Stage(
        PYTEST, "test_block.py", files=TEST_PIPELINE | {"pipeline.py": PIPELINE_OF_ACL}, says=" passed"
    ),
    ("acl/running", "- run: pip install acl-py[media]"): Stage(
        'sed "s/^- run: //" block.yaml > block.sh; . ./block.sh',
        "block.yaml",
        files={"src/infer.py": SET_UP, "ci/models/none": "", "pytest.ini": "[pytest]", "test_it.py": "def test_i(): 1"},
        says=" passed",
    ),
    ("acl/models", "# resnet50.om.toml, beside resnet50.om or in a fol"): Stage(
        "acl-py run infer.py",
        "resnet50.om.toml",
        files={"infer.py": LOAD_MODEL, "resnet50.py": INFER_OF_MODEL},
        says="loaded: True",
    ),
    ("acl/models", "from acl_py.compat.acl import Tensor, register_mod"): Stage(
        "acl-py run block.py", "block.py", f"{{block}}\n{LOAD_MODEL}", says="loaded: True"
    ),
    ("acl/models", "from acl_py.compat.acl import register_decoder, re"): Stage(
        "acl-py run block.py", "block.py", f"{{block}}\n{SET_UP}"
    ),
    ("acl/models", "[[kernels]]"): Stage(
        "acl-py run load.py",
        "add_custom.o.toml",
        files={"load.py": LOAD_KERNEL, "add_custom.py": ADD_CUSTOM},
        says="loaded: True",
    ),
    ("acl/models", "from acl_py.compat.acl import Parameter, register_"): Stage(
        "acl-py run block.py", "block.py", f"{{block}}\n{LOAD_KERNEL}", says="loaded: True"
    ),
    ("course", "pip install 'acl-py[notebooks]' jupyterlab"): Stage(says="course/10_attention_and_experts.ipynb"),
    ("design", "await acl.MemcpyAsync(device, nbytes, pinned, nbyt"): native(
        "    nbytes, stream = 4096, await CreateStream()\n"
        "    device, pinned = await Malloc(nbytes), await MallocHost(nbytes)\n"
    ),
    ("sweeps", "acl-py sweep upload.py:upload --grid streams=1,2,4"): Stage(files={"upload.py": UPLOAD}),
    ("sweeps", "acl-py sweep infer.py --env STREAMS=1,2 --arg=--ba"): Stage(files={"infer.py": SWEPT}, says="images"),
    ("explore", "acl-py explore tests/explore/planted/missing_wait."): Stage(
        says="fails: AssertionError: stale input", codes=(4,)
    ),
    ("explore", "schedule 4 fails, with 10 deviations"): Stage(
        "acl-py explore tests/explore/planted/missing_wait.py --seed 1", is_text=True, codes=(4,)
    ),
    ("graphs", "await acl.BeginCapture(stream)"): native(
        "    @acl.kernel\n    def attention(cache: InOut, length: int): seen.append(length)\n"
        "    stream, cache, seen = await CreateStream(), Array(await Malloc(64), np.uint8), []\n",
        "    await SynchronizeStream(stream)\n    print(seen)\n",
        "device='tiny', rules='acl'",
        "[2, 3, 4, 5]",
    ),
    ("programs", '{"id": "two-streams",'): Stage("acl-py replay block.json", "block.json", says="two-streams"),
    ("programs/replays", "[host]"): Stage(
        "acl-py devices h200 --overlay host.toml; acl-py replay p.json --overlay host.toml",
        "host.toml",
        files={"p.json": PROGRAM},
        says="6,890",
    ),
    ("programs/recorded", "acl-py run --trace run.json --format program SCRIP"): Stage(
        files={"SCRIPT.py": RACY}, says="h2d"
    ),
    ("programs/replays", "acl-py replay --fault 'fail call=Malloc nth=3 kind"): Stage(
        files={"FILE.json": PROGRAM},
        says="delay(op='kernel",
    ),
    ("sanitizer", "acl-py run --sanitize --fix script.py             "): Stage(
        files={"script.py": RACY, "program.json": PROGRAM},
        says="tried: the finding is gone",
        codes=(4, 4),
    ),
    ("sanitizer/tests", "acl-py run --sanitize --findings found.sarif --fin"): Stage(
        files={"script.py": RACY},
        says="::",
        codes=(4, 4, 4),
    ),
    ("sanitizer/tests", "[tool.acl_py.sanitizer]"): Stage(
        "acl-py run --sanitize script.py", "pyproject.toml", files={"script.py": RACY}, says="race-1e00ec15", codes=(4,)
    ),
    ("sanitizer/tests", '@pytest.mark.acl(device="tiny")  # options of acl_'): Stage(
        PYTEST,
        "test_block.py",
        "import pytest\n\nfrom pipeline import pipeline\n\n\n{block}",
        TEST_PIPELINE | {"pipeline.py": PIPELINE},
        "2 passed",
    ),
    ("sanitizer/tests", "import pytest_asyncio"): Stage(
        PYTEST,
        "test_block.py",
        "import pytest\n\nfrom pipeline import pipeline\n\n{block}\n\n"
        "pytestmark = pytest.mark.asyncio(loop_scope='module')"
        "\n\n\nasync def test_one(shared_sim):\n    await pipeline()\n\n\n"
        "async def test_other(shared_sim):\n    shared_sim.assert_overlaps('h2d', 'square')\n",
        TEST_PIPELINE | {"pipeline.py": PIPELINE},
        "2 passed",
    ),
    ("security", "  code: models/resnet50.om.toml runs models/resnet"): Stage(
        "acl-py run infer.py", files=CODE, is_text=True, variables={"PYTHONPATH": "site"}
    ),
    ("traces", "from acl_py.causes.pages import explained"): native(
        "    async with simulate(device='tiny') as first:\n        await pipeline()\n"
        "    async with simulate(device='tiny') as second:\n        await pipeline()\n"
    )._replace(command="python block.py; ls", says="versions.html"),
    ("traces/files", "from acl_py.trace import chrome, kineto, msprof, t"): native(
        "    async with simulate(device='tiny') as sim:\n        await pipeline()\n"
    )._replace(command="python block.py; ls", says="trace.json"),
    ("traces/explanations", "from acl_py.explain import AsyncProfiler"): native(
        "    @kernel(cost=Cost(us=20))\n    def layer(x: In, y: Out): y[:] = x\n"
        "    stream, host = await CreateStream(), await MallocHost(4096)\n"
        "    x, y = [Array(await Malloc(4096), np.uint8) for _ in range(2)]\n",
        says="compute",
    ),
}
