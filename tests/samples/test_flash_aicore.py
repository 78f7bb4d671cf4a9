"""FlashAttention on AI cores: right for random shapes, and no flag or queue verb of it is needless."""

import ast
from pathlib import Path
from types import ModuleType

import aicore
import ml_dtypes
import numpy as np
import pytest
from aicore import Config, Shape

import acl_py as acl
from acl_py import asc
from acl_py.tools import compare
from device_model.aicore.runner import run
from device_model.profile import load

SPEC = load(aicore.DEVICE).aicore
VERBS = (
    "AllocTensor", "EnQue", "DeQue", "FreeTensor", "SetFlag", "WaitFlag", "PipeBarrier", "CrossCoreSetFlag",
    "CrossCoreWaitFlag",
)  # fmt: skip
SOURCE = Path(aicore.__file__)


def attended(shape, config, blocks=1, *, dtype=np.float16, seed=0, module=aicore):
    """Run the kernel of *module*; return the result of the launch, and the error as a part of its bound."""
    q, k, v = module.random_inputs(shape, dtype, seed)
    out = np.zeros_like(q)
    workspace = np.zeros(config.workspace_bytes(shape.d, blocks), np.uint8)
    result = run(
        module.flash_attention.function,
        blocks,
        (q, k, v, out, workspace, shape, config.br, config.bc, config.stages),
        SPEC,
        kind=asc.KernelType.MIX_AIC_1_2,
    )
    expected, bound = aicore.reference(q, k, v, shape)
    return result, np.max(np.abs(out.astype(np.float64) - expected) / bound)


def random_case(seed):
    """Return the arguments of `attended` for a random shape, random tiles and a random number of blocks."""
    rng = np.random.default_rng(seed)
    keys = int(rng.integers(1, 300))
    causal = bool(seed % 2)
    queries = int(rng.integers(1, keys + 1 if causal else 300))
    shape = Shape(int(rng.integers(1, 5)), queries, keys, (64, 128)[seed // 2 % 2], causal)
    config = Config(int(rng.choice([32, 64, 96, 128])), int(rng.choice([16, 48, 64, 80, 128])), int(rng.integers(1, 5)))
    return shape, config, int(rng.integers(1, 5)), (np.float16, ml_dtypes.bfloat16)[seed // 4 % 2]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(40))
def test_random_shapes_come_out_as_in_float64_within_the_bound_and_without_a_finding(seed):
    shape, config, blocks, dtype = random_case(seed)
    result, error = attended(shape, config, blocks, dtype=dtype, seed=seed)
    assert [str(finding) for finding in result.findings] == []
    assert error <= 1, (shape, config, blocks, dtype)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_the_bound_is_near_to_the_error(dtype):
    assert attended(Shape(2, 128, 128, 64), Config(64, 64, 2), dtype=dtype)[1] > 0.25


def test_large_scores_and_a_first_tile_without_the_largest_one_are_right():
    """A later tile has much larger scores, so that the mixture of the first tiles is scaled down to nothing."""
    shape, config = Shape(1, 32, 96, 64), Config(32, 32, 2)
    q, k, v = aicore.random_inputs(shape)
    k[:, 64:] *= 8
    out = np.zeros_like(q)
    workspace = np.zeros(config.workspace_bytes(shape.d, 1), np.uint8)
    args = (q, k, v, out, workspace, shape, config.br, config.bc, config.stages)
    run(aicore.flash_attention.function, 1, args, SPEC, kind=asc.KernelType.MIX_AIC_1_2)
    expected, bound = aicore.reference(q, k, v, shape)
    assert (np.abs(out.astype(np.float64) - expected) <= bound).all()


@pytest.mark.slow
def test_tiles_in_flight_are_worth_it():
    shape = Shape(2, 256, 256, 128)
    ns = [attended(shape, Config(128, 128, stages), 2)[0].timeline.duration_ns for stages in (1, 2, 4)]
    assert ns[0] > 1.3 * ns[1] > 1.3 * 1.1 * ns[2]


# Verbs


def verbs():
    """Return the position of each call of a verb in the sample."""
    calls = (node for node in ast.walk(ast.parse(SOURCE.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    return [
        (call.lineno, call.col_offset, call.func.attr)
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in VERBS
    ]


class Without(ast.NodeTransformer):
    """Removes one call. A statement goes as a whole; `return queue.DeQue(...)` returns what was put into the queue."""

    def __init__(self, line, column):
        self.place = line, column
        self.removed = 0

    def is_meant(self, node):
        value = getattr(node, "value", None)
        return isinstance(value, ast.Call) and (value.lineno, value.col_offset) == self.place

    def remove(self, node):
        if not self.is_meant(node):
            return node
        self.removed += 1
        return ast.copy_location(ast.Pass(), node)

    visit_Expr = visit_Assign = remove

    def visit_Return(self, node):
        if not self.is_meant(node):
            return node
        self.removed += 1
        return ast.copy_location(ast.Return(ast.copy_location(ast.Name("tensor", ast.Load()), node)), node)


def sample_without(line, column):
    """Return the module of the sample without the call at a position."""
    without = Without(line, column)
    tree = ast.fix_missing_locations(without.visit(ast.parse(SOURCE.read_text(encoding="utf-8"))))
    assert without.removed == 1
    module = ModuleType("aicore_without")
    exec(compile(tree, str(SOURCE), "exec"), vars(module))
    return module


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("line", "column", "verb"), verbs(), ids=lambda part: str(part))
def test_no_verb_can_be_removed_without_an_error_or_a_finding(line, column, verb):
    module = sample_without(line, column)
    errors = (asc.KernelError, NameError) if verb == "AllocTensor" else asc.KernelError
    try:
        result, _ = attended(Shape(2, 64, 150, 64, True), Config(32, 32, 2), module=module)
    except errors:
        return
    assert len(result.findings)


def test_all_verbs_are_tried():
    assert len(verbs()) == sum(SOURCE.read_text(encoding="utf-8").count(f".{verb}(") for verb in VERBS)
    assert {verb for _, _, verb in verbs()} == {
        "AllocTensor", "EnQue", "DeQue", "FreeTensor", "CrossCoreSetFlag", "CrossCoreWaitFlag",
    }  # fmt: skip


# Bad input


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (Shape(0, 1, 1, 64), "all numbers must be 1 or more"),
        (Shape(1, 1, 1, 96), "d a multiple of 64"),
        (Shape(1, 2, 1, 64, True), "with fewer keys than queries, the first queries see no key"),
    ],
)
def test_shapes_that_it_cannot_compute_are_refused(shape, message):
    with pytest.raises(ValueError, match=message):
        attended(shape, Config(32, 32, 1))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Config(48, 32, 1), "br must be a multiple of 32, bc of 16"),
        (Config(32, 40, 1), "br must be a multiple of 32, bc of 16"),
        (Config(32, 32, 0), "stages must be 1 to 15"),
        (Config(32, 32, 16), "stages must be 1 to 15"),
    ],
)
def test_tiles_that_it_does_not_have_are_refused(config, message):
    with pytest.raises(ValueError, match=message):
        attended(Shape(1, 32, 32, 64), config)


@pytest.mark.parametrize(
    ("shape", "config", "memory"),
    [
        (Shape(1, 512, 512, 128), Config(512, 512, 1), "L1"),
        (Shape(1, 512, 512, 128), Config(256, 64, 1), "L0A"),
        (Shape(1, 512, 512, 128), Config(64, 256, 1), "L0B"),
        (Shape(1, 512, 512, 64, True), Config(256, 64, 15), "UB"),
    ],
)
def test_tiles_that_do_not_fit_are_refused_by_the_memory_that_is_too_small(shape, config, memory):
    with pytest.raises(asc.KernelError, match=f"do not fit in {memory} of block 0"):
        attended(shape, config)


def test_a_workspace_that_is_too_small_is_refused():
    shape, config = Shape(1, 32, 32, 64), Config(32, 32, 2)
    q, k, v = aicore.random_inputs(shape)
    workspace = np.zeros(config.workspace_bytes(shape.d, 1) - 2, np.uint8)
    args = (q, k, v, np.zeros_like(q), workspace, shape, config.br, config.bc, config.stages)
    with pytest.raises(asc.KernelError, match="do not fit in <GlobalBuffer"):
        run(aicore.flash_attention.function, 1, args, SPEC, kind=asc.KernelType.MIX_AIC_1_2)


# Planted mistakes, as `acl-py compare` tells them


def sample_with(changes):
    """Return the module of the sample with changed text; each old text is there once."""
    text = SOURCE.read_text(encoding="utf-8")
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    module = ModuleType("aicore_with")
    exec(compile(text, str(SOURCE), "exec"), vars(module))
    return module


def first_difference(module):
    """Launch the kernel of *module* on two blocks, and compare its result with that of the sample."""
    shape, config = Shape(1, 96, 96, 64, True), Config(32, 32, 2)

    async def launched(kernel):
        inputs = module.random_inputs(shape)
        arrays = [await acl.Malloc(each.nbytes) for each in inputs]
        for array, numbers in zip(arrays, inputs, strict=True):
            await acl.Memcpy(array, numbers.nbytes, numbers, numbers.nbytes, acl.MemcpyKind.HOST_TO_DEVICE)
        out = acl.Array(await acl.Malloc(inputs[0].nbytes), np.float16, inputs[0].shape)
        workspace = await acl.Malloc(config.workspace_bytes(shape.d, 2))
        arrays = [acl.Array(array, np.float16) for array in arrays]
        await kernel[2](*arrays, out, workspace, shape, config.br, config.bc, config.stages)
        return out

    expected = compare.run("sample", lambda: launched(aicore.flash_attention), aicore.DEVICE).values
    outcome = compare.run("mutant", lambda: launched(module.flash_attention), aicore.DEVICE)
    return next(compare.differences(outcome, expected, tile=(32, 64)), None)


def test_the_sample_agrees_with_itself():
    assert first_difference(aicore) is None


def test_without_the_causal_mask_the_first_tile_differs():
    found = first_difference(sample_with({"FARTHEST = -1e30": "FARTHEST = 0.0"}))
    assert (found.tile, found.first[:2]) == ((0, 0, 0), (0, 0))
    assert found.step.what.startswith("DataCopyPad (MTE3) at aicore.py:")
    assert found.wrong_steps == 6  # both vector cores store their half of each of the 3 tiles of queries


def test_a_sum_that_is_not_scaled_down_shows_in_the_second_tile_of_queries():
    """The first 32 queries see one tile of keys, so nothing is scaled down for them."""
    old = "asc.Mul(self.part, self.total[before], scale, rows)"
    found = first_difference(sample_with({old: "asc.Adds(self.part, self.total[before], 0.0, rows)"}))
    assert found.tile == (0, 1, 0)
    assert found.region == (slice(0, 1), slice(32, 64), slice(0, 64))
    assert found.finding is None


def test_a_wait_that_is_missing_and_a_wrong_number_have_the_wait_as_the_nearest_finding():
    module = sample_with({"asc.CrossCoreWaitFlag(SHARES)": "pass", "d**-0.5": "d**-0.4"})
    found = first_difference(module)
    assert found.tile == (0, 0, 0)
    assert found.finding is not None
    assert found.finding.missing == "SyncAll or CrossCoreSetFlag and CrossCoreWaitFlag"
