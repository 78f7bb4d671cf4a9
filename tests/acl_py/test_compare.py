"""`acl-py compare`: the first difference, its tile, what wrote it, and the finding nearest to it; what cannot be."""

import re
from pathlib import Path

import compared
import numpy as np
import pytest
from typer.testing import CliRunner

import acl_py as acl
from acl_py import cta
from acl_py.cli import app
from acl_py.tools import compare

FILE = Path(compared.__file__)
DOCS = FILE.parent.parent.parent / "docs"


def compare_command(launch, reference="reference", *options):
    return CliRunner().invoke(app, ["compare", f"{FILE}:{launch}", reference, *options])


def differences(launch, reference=compared.reference, **options):
    outcome = compare.run("the launch", getattr(compared, launch), "ascend910b3")
    return list(compare.differences(outcome, compare.reference_values("the reference", reference), **options))


def text_of(launch):
    done = compare_command(launch)
    assert done.exit_code == 4
    return done.stdout


def test_what_agrees_has_exit_code_0():
    done = compare_command("right")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"1 of 1 arrays agree with {FILE}:reference\n"


LUCKY = """
import numpy as np

import acl_py as acl


def zeros():
    return np.zeros(4)


async def at_random():
    array = np.zeros(4)
    array[0] = acl.current_simulation().rng.integers(2)
    return array
"""


def test_a_launch_runs_with_many_seeds_and_the_first_that_differs_is_shown(tmp_path):
    (tmp_path / "lucky.py").write_text(LUCKY)
    done = CliRunner().invoke(app, ["compare", f"{tmp_path / 'lucky.py'}:at_random", "zeros", "--seeds", "8"])
    assert done.exit_code == 4
    assert done.stdout.startswith("result 0: 1 of 4 elements differ\n")
    assert done.stdout.splitlines()[-2].startswith("0 of 1 arrays agree with ")
    wrong = [seed for seed in range(8) if np.random.default_rng(seed).integers(2)]
    assert done.stdout.splitlines()[-1] == f"seeds: {len(wrong)} of 8 differ: {', '.join(map(str, wrong))}"
    assert 0 < len(wrong) < 8


def test_a_wrong_tile_is_named_with_the_instruction_that_wrote_it():
    assert (
        text_of("wrong")
        == f"""\
result 0: 4,096 of 32,768 elements differ
  largest:  an error of 1, at [64, 128]
  first:    [64, 128] is 14.0, and the reference has 13.0
  tile:     elements [64:128, 128:192]
  written:  by DataCopy (MTE3) at compared.py:33, which ended at 463.71 us
  step:     instruction 14 of block 2 (AIV), in launch 0 of wrong_kernel, queued at compared.py:68
  in time:  it is the only wrong step
  finding:  none
0 of 1 arrays agree with {FILE}:reference
"""
    )


def test_a_missing_flag_is_the_nearest_finding():
    (found,) = differences("hasty")
    assert found.count == found.size
    assert found.region == (slice(0, 64), slice(0, 64))
    assert found.wrong_steps == 8
    assert found.earliest is found.step
    assert (found.finding.rule.name, found.finding.missing) == ("RAW", "MTE2_V")
    assert "  in time:  it is the first of 8 wrong steps\n" in str(found)
    assert "  finding:  RAW in block 0 (AIV): Adds (V) at compared.py:30 reads" in str(found)


def test_the_last_of_several_launches_wrote_it():
    (found,) = differences("overwritten")
    assert found.step.launch == 2
    assert found.step.part.startswith("instruction 14 of block 2 (AIV), in launch 2 of wrong_kernel, queued at ")


def test_kernels_and_copies_as_a_whole_are_steps_too():
    (touched,), (copied,) = differences("touched"), differences("copied")
    assert (touched.count, touched.first, touched.step.what) == (1, (3, 5), "plain_kernel")
    assert (copied.step.what, copied.first) == ("h2d", (7, 0))
    assert copied.region == (slice(7, 9), slice(0, 256))
    assert copied.largest == (100.0, (7, 7))


def test_the_first_step_in_time_is_named_where_it_is_another_one():
    (found,) = differences("copied_twice")
    assert (found.first, found.wrong_steps) == ((7, 0), 2)
    assert found.earliest.ended_ns < found.step.ended_ns
    assert "  in time:  the first of 2 wrong steps is h2d, which ended at 482.92 us, queued at " in str(found)


def test_a_finding_of_another_launch_is_better_than_none():
    (found,) = differences("two_mistakes")
    assert found.step.launch == 1
    assert found.finding.rule.name == "RAW"


def test_tiles_of_a_given_shape_are_numbered_and_the_first_one_is_named():
    """In the order of elements the wrong row of tile [0, 1] comes before that of tile [0, 0]."""

    def reference():
        values = compared.reference()
        values[5, 200] += 1
        values[9, 3] += 1
        values[127, 255] += 1
        return values

    (found,) = differences("right", reference, tile=[48, 100])
    assert (found.first, found.tile) == ((9, 3), (0, 0))
    (found,) = differences("right", reference)
    assert (found.first, found.tile) == ((5, 200), ())
    assert found.region == (slice(0, 64), slice(192, 256))
    (found,) = differences("wrong", tile=[100, 100])
    assert (found.tile, found.region) == ((0, 1), (slice(0, 100), slice(100, 200)))


def test_arrays_have_names_and_only_those_that_differ_are_shown():
    done = compare_command("several", "references")
    assert done.exit_code == 4
    assert done.stdout.startswith("bad: 4,096 of 32,768 elements differ\n")
    assert done.stdout.endswith(f"1 of 2 arrays agree with {FILE}:references\n")


def test_errors_up_to_the_tolerances_are_right():
    assert compare_command("right", "nearly").exit_code == 4
    (found,) = differences("right", compared.nearly, rtol=0.002)
    assert (found.count, found.first) == (1, (2, 7))
    assert differences("right", compared.nearly, rtol=0.002, atol=3) == []
    assert compare_command("right", "nearly", "--rtol", "0.002", "--atol", "3").exit_code == 0


@pytest.mark.parametrize(
    ("got", "expected", "wrong"),
    [
        (np.array([1, np.nan, np.inf]), np.array([1, np.nan, np.inf]), []),
        (np.array([np.nan, 0.0, -np.inf]), np.array([0.0, np.nan, np.inf]), [0, 1, 2]),
        (np.array([2**62, 2**62 + 1]), np.array([2**62, 2**62]), [1]),
        (np.array([-(2**63)]), np.array([2**63 - 1]), [0]),
        (np.array([True, False]), np.array([True, True]), [1]),
    ],
)
def test_numbers_that_are_no_numbers_and_large_integers_are_compared_as_they_are(got, expected, wrong):
    outcome = compare.run("the launch", lambda: got, "ascend910b3")
    found = list(compare.differences(outcome, {"result 0": expected}))
    assert [each.count for each in found] == ([len(wrong)] if wrong else [])
    assert [each.first for each in found] == ([(wrong[0],)] if wrong else [])


@cta.kernel(threads=64)
def reverse(x: cta.In, y: cta.Out):
    s, t, first = cta.shared(np.float32, 64), cta.tid, cta.block[0] * 64
    s[t] = x[first + t]
    y[first + t] = s[63 - t]


async def reversed_in_blocks():
    values = np.arange(256, dtype=np.float32)
    x, y = [acl.Array(await acl.Malloc(values.nbytes), np.float32) for _ in range(2)]
    await acl.Memcpy(x, x.nbytes, values, values.nbytes, acl.MemcpyKind.HOST_TO_DEVICE)
    await reverse[4](x, y)
    return y


def test_thread_block_kernels_are_compared_too():
    """Element 133 is the sixth of block 2: the element of thread 5."""
    expected = np.arange(256, dtype=np.float32).reshape(4, 64)[:, ::-1].reshape(-1).copy()
    expected[133] += 1
    outcome = compare.run("the launch", reversed_in_blocks, "h200")
    (found,) = compare.differences(outcome, {"result 0": expected}, tile=[64])
    assert (found.first, found.tile, found.count) == ((133,), (2,), 1)
    line = reverse.function.__code__.co_firstlineno + 4
    assert (found.step.what, found.step.where) == (f"st.global.32 (warp 0) at test_compare.py:{line}", "block 2")
    assert re.match(r"thread 5, instruction \d+ of block 2, in launch 0 of reverse, queued at", found.step.part)
    assert found.earliest == found.step
    assert (found.finding.rule.name, found.finding.missing) == ("RAW", "syncthreads()")


@cta.kernel(threads=64)
def scatter(y: cta.Out):
    """Each thread writes two pairs, far from those of its neighbours."""
    row, pair = cta.tid % 8, cta.tid // 8
    for half in range(2):
        y[half, row, pair] = cta.full((2,), 1)
    with cta.where(cta.tid == 42):
        y[1, 2, 5] = cta.full((2,), 7)


async def scattered():
    y = acl.Array(await acl.Malloc(4 * 2 * 8 * 8 * 2), np.float32, (2, 8, 8, 2))
    await scatter[1](y)
    host = np.zeros(y.shape, np.float32)
    await acl.Memcpy(host, host.nbytes, y, y.nbytes, acl.MemcpyKind.DEVICE_TO_HOST)
    return {"device": y, "host": host}


def test_the_thread_is_known_of_scattered_stores_and_of_those_that_others_overwrite():
    outcome = compare.run("the launch", scattered, "h200")
    expected = np.ones((2, 8, 8, 2), np.float32)
    for found in compare.differences(outcome, {"device": expected, "host": expected}):
        assert (found.first, found.count, found.got) == ((1, 2, 5, 0), 2, 7)
        assert found.step.part.startswith("thread 42, ")
        assert found.region == (slice(1, 2), slice(2, 3), slice(5, 6), slice(0, 2))
        assert found.wrong_steps == 1
    recorder = outcome.recorder
    for index in np.ndindex(2, 8, 8, 2):
        thread = index[1] + 8 * index[2]
        assert all(
            recorder.step(array, index).part.startswith(f"thread {thread}, ") for array in outcome.arrays.values()
        )


def test_arrays_of_the_host_were_written_where_copies_brought_them_from():
    (found,), (in_device_memory,) = differences("on_host"), differences("wrong")
    assert (found.count, found.first, found.region) == (4096, (64, 128), (slice(64, 128), slice(128, 192)))
    assert found.step.what == in_device_memory.step.what
    assert found.wrong_steps == 1


def test_of_an_array_that_the_host_made_no_writer_is_known():
    (found,) = differences("changed_by_the_host")
    assert (found.step, found.region, found.count, found.wrong_steps) == (None, None, 4096, 0)
    assert "  written:  unknown; return the Array in device memory, or the array that a copy brought it to" in str(
        found
    )


def test_what_a_launch_with_too_few_blocks_leaves_out_was_written_by_no_step():
    (found,) = differences("too_few_blocks")
    assert (found.step, found.first, found.count, found.unwritten) == (None, (0, 192), 8192, 8192)
    assert (
        "  written:  by no step, as 8,192 of the wrong elements; does the launch have enough blocks, "
        "and does each block write all of its part?\n"
        f"  beside:   {found.beside.what} wrote the nearest element: {found.beside.part}"
    ) in str(found)
    launch = compared.too_few_blocks.__code__.co_firstlineno + 5
    assert found.beside.where == "block 2 (AIV)"
    assert found.beside.part.endswith(f" in launch 0 of plain_arguments_kernel, queued at compared.py:{launch}")


def test_a_copy_of_what_too_few_blocks_left_out_is_found_as_a_read_of_unwritten_bytes():
    findings = []

    async def main():
        await compared.copied_out_with_too_few_blocks()
        findings.extend(acl.current_simulation().findings)

    acl.run(main, device="ascend910b3", sanitize="uninitialised")
    (finding,) = findings
    assert finding.kind.value == "uninitialised"
    assert "reads 16,384 unwritten bytes" in str(finding)
    launch = compared.too_few_blocks.__code__.co_firstlineno + 5
    assert finding.text.endswith(
        f"; kernel 'plain_arguments_kernel' at compared.py:{launch} wrote 49,152 bytes beside them in 3 blocks: "
        "does the launch need more blocks?"
    )


@pytest.mark.parametrize(
    ("launch", "reference", "message"),
    [
        ("right", "narrow", "result 0 is float16 (128, 256), and the reference float16 (128, 255); return arrays of"),
        ("right", "of_floats", "result 0 is float16 (128, 256), and the reference float32 (128, 256); return arrays"),
        ("right", "references", "the launch returned result 0, and the reference good, bad"),
        ("right", "failing", "compared.py:failing failed at compared.py:"),
        ("right", "failing", ": ZeroDivisionError: no reference today"),
        ("right", "takes_arguments", "positional argument: 'values'; it is called without arguments"),
        ("right", "awaited", "awaited is a coroutine function; a reference must be a plain function"),
        ("right", "nothing", "returned None; return an array, or several in a tuple or a dict"),
        ("right", "texts", "returned 1 as result 0; return arrays of NumPy, or Arrays in device memory"),
        ("right", "NOT_A_FUNCTION", "has no function NOT_A_FUNCTION"),
        ("missing", "reference", "has no function missing"),
        ("ends_with_an_error", "reference", "107000): Malloc of -1 bytes; ask for 1 byte or more"),
        ("right", "nowhere.py:reference", "there is no file nowhere.py"),
        ("right", "no_such_module:reference", "no_such_module cannot be imported: ModuleNotFoundError"),
        ("right", "", "name a function as FILE.py:FUNCTION or MODULE:FUNCTION"),
    ],
)
def test_where_there_is_nothing_to_compare_the_exit_code_is_2_and_says_why(launch, reference, message):
    done = compare_command(launch, reference)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert message in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tile", "1,2,3"), "a tile of [1, 2, 3] in result 0 of shape (128, 256); give lengths for its last"),
        (("--tile", "0,2"), "a tile of [0, 2] in result 0"),
        (("--tile", "wide"), "'wide': give lengths with commas, such as 64,128"),
        (("--device", "h200"), "needs AI cores, and profile h200 does not describe any"),
        (("--device", "nothing"), "nothing"),
        (("--rtol", "-1"), "Invalid value for '--rtol'"),
    ],
)
def test_options_that_are_impossible_are_refused(options, message):
    done = compare_command("wrong", "reference", *options)
    assert done.exit_code == 2
    assert message in done.stderr.replace("│", "")


def test_a_file_without_a_function_for_the_launch_is_refused():
    done = CliRunner().invoke(app, ["compare", "reference", "reference"])
    assert (done.exit_code, done.stderr.split(": ")[1]) == (2, "reference")


def test_a_file_that_raises_when_it_is_imported_is_refused(tmp_path):
    (tmp_path / "broken_for_compare.py").write_text("1 / 0\n")
    done = CliRunner().invoke(app, ["compare", f"{tmp_path}/broken_for_compare.py:launch", "reference"])
    assert done.exit_code == 2
    assert "cannot be imported: ZeroDivisionError: division by zero" in done.stderr


def test_modules_may_import_what_lies_beside_them(tmp_path):
    (tmp_path / "beside_for_compare.py").write_text("import numpy as np\nones = np.ones(3)\n")
    (tmp_path / "main_for_compare.py").write_text(
        "from beside_for_compare import ones\nlaunch = lambda: ones\nreference = lambda: ones * 2\n"
    )
    done = CliRunner().invoke(app, ["compare", f"{tmp_path}/main_for_compare.py:launch", "reference"])
    assert (done.exit_code, done.stderr) == (4, "")


def test_the_docs_show_what_it_prints():
    text = (DOCS / "aicore.md").read_text(encoding="utf-8")
    printed = text_of("wrong").replace(f"{FILE}", "tests/acl_py/compared.py")
    assert f"```text\n{printed}```" in text
    assert "acl-py compare tests/acl_py/compared.py:wrong reference\n" in text
