"""Rows of a file (rows/published.py): products in raw instructions against NumPy, and what words and shapes choose."""

import json
from itertools import chain

import numpy as np
import pytest

from device_model.aicore.core.names import KernelType
from device_model.aicore.runner import run
from device_model.profile import load
from tests.bench.aicore_rows import FAMILIES, main
from tests.bench.aicore_rows_pairs import pairs_of
from tests.bench.rows import choices
from tests.bench.rows.calls import call_us
from tests.bench.rows.matmuls import multiply_in_parts, runs
from tests.bench.rows.products import Product, laid, multiply, operands, single
from tests.bench.rows.published import FIRST_US, HEAD_US, MIX_US, UnknownRowError, head_us, kernel_of, predicted

ROW = {
    "kind": "cube", "op": "catlass basic, B column major, L1 32x32x128", "shape": [5, 512, 96], "dtype": "float32",
    "card": "ascend910b1", "cores": 3, "us": 10.0, "how": "msprof", "source": "made up", "fair": "yes",
}  # fmt: skip


@pytest.mark.parametrize(
    "product",
    [
        Product(70, 200, 150, l1=(32, 64, 64), depth=32),
        Product(70, 208, 160, b="column", l1=(32, 64, 64), depth=32, shuffles=True),
        Product(20, 192, 160, b="zN", l1=(32, 64, 64), depth=32, swizzle=(2, 1)),
        Product(5, 512, 96, single, "column", (32, 32, 128), 64, out=single),
        Product(40, 217, 107, single, "row", (32, 48, 64), 32, out=single),
    ],
    ids=["row", "column", "zN", "float32", "float32 by rows"],
)
def test_a_product_in_tiles_equals_numpy(product):
    a, b = operands(product, np.random.default_rng(1))
    c = np.zeros((product.m, product.n), product.out)
    args = a, laid(product, b), c, product
    result = run(multiply, 4, args, load("ascend910b1").aicore, kind=KernelType.AIC_ONLY)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.allclose(c, exact, rtol=2e-3, atol=1e-4)
    assert not list(result.findings)


def test_a_product_in_parts_that_fit_the_l2_equals_numpy():
    product = Product(300, 64, 208, l1=(64, 64, 64), depth=32)
    a, b = operands(product, np.random.default_rng(1))
    c = np.zeros((product.m, product.n), product.out)
    result = run(
        multiply_in_parts, 3, (a, b, c, product, 2), load("ascend910b1").aicore, kind=KernelType.AIC_ONLY
    )  # fmt: skip
    assert np.allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=2e-3, atol=1e-2)
    assert not list(result.findings)


def test_each_tile_of_c_has_one_core_and_longer_runs_take_turns():
    product = Product(8192, 4096, 3584)
    tiles = [runs(product, 8, 20, core) for core in range(20)]
    assert sorted(chain(*tiles)) == [(row, column) for row in range(64) for column in range(14)]
    assert {len(each) for each in tiles} == {44, 45}  # 112 tiles of a part: 12 cores have 6, and 8 have 5


@pytest.mark.parametrize("swizzle", [(1, 0), (3, 0), (3, 1), (4, 1)])
def test_each_tile_of_c_has_one_place(swizzle):
    product = Product(7 * 128, 64, 5 * 256, swizzle=swizzle)
    places = [product.place(task) for task in range(35)]
    assert sorted(places) == [(row, column) for row in range(7) for column in range(5)]
    assert len(set(places[: swizzle[0]])) == swizzle[0]
    assert {place[1 - swizzle[1]] for place in places[: swizzle[0]]} == {0}  # a band begins across it


def test_words_and_shape_choose_a_kernel_and_what_is_unknown_is_named(tmp_path, capsys):
    rows, out = tmp_path / "rows.json", tmp_path / "out.json"
    others = [
        {**ROW, "op": "catlass preload, B zN, L1 16x32x64", "shape": [16, 128, 64], "dtype": "float16"},
        {**ROW, "op": "a kernel that nobody has"},
        {**ROW, "us": 20_000.0},
    ]
    rows.write_text(json.dumps({"rows": [ROW, *others]}))
    with pytest.raises(SystemExit) as ended:
        main(["--rows", str(rows), "--json", str(out)])
    assert ended.value.code == 4
    printed = capsys.readouterr().out
    assert "there is no kernel for 'a kernel that nobody has'" in " ".join(printed.split())
    assert "longer than 10,000 us" in " ".join(printed.split())
    done = json.loads(out.read_text())
    assert [row["op"] for row in done] == [ROW["op"], others[0]["op"]]
    assert all(row["measured"] == 10.0 and row["predicted"] > HEAD_US and row["pipes"]["mac"] > 0 for row in done)


def test_pairs_differ_in_words_alone_and_by_more_than_3_percent():
    rows = [
        ROW | {"op": op, "measured": us} | more
        for op, us, more in (
            ("tiles of 32", 10.0, {}),
            ("tiles of 64", 12.0, {}),
            ("tiles of 96", 10.2, {}),
            ("tiles of 64", 13.0, {"cores": 2}),
            ("tiles of 128", 13.0, {"fair": "weak"}),
        )
    ]
    pairs = [(one["op"], other["op"]) for one, other in pairs_of(rows)]
    assert pairs == [("tiles of 32", "tiles of 64"), ("tiles of 64", "tiles of 96")]


def test_pairs_differ_in_one_choice():
    words = ("B zN, L1 16x32x64", "B zN, L1 32x16x64", "B row major, L1 16x32x64", "B zN, L1 16x32x64, swizzle <4, 1>")
    rows = [ROW | {"op": op, "measured": us} for op, us in zip(words, (10.0, 12.0, 14.0, 16.0), strict=True)]
    numbers = [(words.index(one["op"]), words.index(other["op"])) for one, other in pairs_of(rows)]
    assert numbers == [(0, 1), (0, 2), (0, 3)]


def test_all_rows_of_choices_exist():
    assert all(kernel_of(row) for row in choices.PRODUCTS)
    names = {(row.family, row.what) for rows in FAMILIES.values() for row in rows}
    assert names >= {(family, what) for _, family, whats in choices.FAMILIES for what in whats}


def ended(arguments):
    with pytest.raises(SystemExit) as end:
        main(list(map(str, arguments)))
    return end.value.code


def test_rows_that_were_predicted_before_are_kept_if_asked_for(tmp_path):
    rows, out = tmp_path / "rows.json", tmp_path / "out.json"
    other = {**ROW, "op": "catlass basic, L1 32x32x128"}
    rows.write_text(json.dumps([ROW]))
    assert ended(["--rows", rows, "--json", out]) == 0
    (first,) = json.loads(out.read_text())
    out.write_text(json.dumps([first | {"predicted": 1.5}]))
    rows.write_text(json.dumps([other, ROW, {**ROW, "us": 11.0}]))
    assert ended(["--rows", rows, "--json", out, "--resume"]) == 0
    times = [row["predicted"] for row in json.loads(out.read_text())]
    assert times[1:] == [1.5, first["predicted"]]
    assert ended(["--rows", rows, "--json", out]) == 0
    assert [row["predicted"] for row in json.loads(out.read_text())] == [times[0], *[first["predicted"]] * 2]


def test_several_processes_predict_the_same(tmp_path, capsys):
    rows = tmp_path / "rows.json"
    kinds = {**ROW, "op": "a kernel that nobody has"}, {**ROW, "op": "catlass basic, L1 32x32x128", "us": 20.0}
    rows.write_text(json.dumps([ROW, *kinds]))
    seen = []
    for workers in (1, 2):
        out = tmp_path / f"{workers}.json"
        assert ended(["--rows", rows, "--json", out, "--workers", workers]) == 4
        tables = capsys.readouterr().out.partition("cube, microseconds")[2].replace(out.name, "")
        seen.append((out.read_text(), tables))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("wrong", [["--workers", 0], ["--resume"], ["nosuch"], ["--pairs", "Add"]])
def test_options_that_say_nothing_are_refused(wrong, capsys):
    assert ended(wrong) == 2
    assert wrong[0] in capsys.readouterr().err


def test_the_cores_of_the_shortest_launch_start_without_delay():
    row = ROW | {"kind": "vector", "op": "TurboQuant", "shape": [8, 64], "cores": 8, "how": "profiler, mean"}
    mean, shortest = (predicted(row | {"how": how})["predicted"] for how in ("profiler, mean", "profiler, shortest"))
    assert mean - shortest == pytest.approx(7 * (0.07 - 0.02), abs=0.03)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"card": "ascend910z"}, "no profile"),
        ({"card": "h200"}, "no profile"),
        ({"cores": 49}, "no 49 cores"),
        ({"shape": [1, 2]}, "3 sizes"),
        ({"shape": [0, 2, 3]}, "1 or more"),
        ({"dtype": "int4"}, "int4"),
        ({"kind": "scalar"}, "scalar"),
    ],
)
def test_a_row_that_names_what_is_not_here_is_refused(changed, named):
    with pytest.raises(UnknownRowError, match=named):
        kernel_of(ROW | changed)


def test_the_profiler_counts_a_head_and_a_launch_of_both_types_of_core_another():
    assert head_us(ROW) == HEAD_US
    assert head_us(ROW | {"kind": "cube-int8"}) == head_us(ROW | {"kind": "mixed"}) == HEAD_US + MIX_US
    assert head_us(ROW | {"kind": "vector"}) == HEAD_US
    assert head_us(ROW | {"kind": "attention"}) == 0
    assert head_us(ROW | {"how": "mean of 50 launches in a row"}) == 0
    assert head_us(ROW | {"how": "profiler, shortest"}) == 0


def test_the_first_launch_of_a_program_has_a_head_by_cores_and_finds_its_arguments_in_the_l2():
    row = ROW | {"op": "GEMM, PTO kernel", "shape": [256, 512, 512], "dtype": "float16", "how": "task duration"}
    assert head_us(row) == pytest.approx(3 * FIRST_US)
    assert head_us(row | {"how": "mean of 50 launches in a row"}) == 0
    first, other = predicted(row), predicted(row | {"op": "GEMM, basic API", "how": ""})
    assert first["pipes"]["mte2"] < 0.8 * other["pipes"]["mte2"]
    source = row | {"op": "GEMM, tiles in a grid", "source": "hicann/pto-isa@dd3cb0fb kernels/manual"}
    assert predicted(source)["predicted"] == first["predicted"]


def test_the_slower_of_host_and_card_decides_in_calls_in_a_row():
    """The wait for the last kernel is a part of all calls, and the gap between kernels one of each."""
    kernels = (1, 8, 17, 19, 20, 30, 100)
    many = [call_us("ascend910b2", us, 20, calls=2_000) for us in kernels]
    assert many == pytest.approx([20, 20, 20, 20, 20.78, 30.78, 100.78], abs=0.03)
    few = [call_us("ascend910b2", us, 20, calls=10) for us in kernels]
    assert few == sorted(few)
    assert all(0 < (each - of_many) * 10 < 10 + us for each, of_many, us in zip(few, many, kernels, strict=True))


def test_a_row_of_calls_in_a_row_is_predicted_so():
    row = ROW | {"kind": "vector", "op": "mhc_post", "shape": [2, 40, 512], "how": "call, includes 20 us of the host"}
    called, alone = predicted(row)["predicted"], predicted(row | {"how": ""})["predicted"]
    assert alone < 15
    assert called == pytest.approx(call_us(ROW["card"], alone, 20), abs=0.001)
