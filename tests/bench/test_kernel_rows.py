"""The kernels that are timed on a card: each has rows, whose arrays are the same wherever they are made."""

from tests.bench.cuda.kernel_rows import ENTRY, FAMILIES, FOLDER, alone
from tests.bench.recipes import arrays


def test_each_kernel_has_three_rows():
    kernels = [name for file in FOLDER.glob("*.cu") for name in ENTRY.findall(file.read_text(encoding="utf-8"))]
    rows = [row["kernel"] for family, sizes in FAMILIES.items() for size in sizes for row in family(size)]
    assert sorted(rows) == sorted(3 * kernels)


def test_a_kernel_alone_keeps_its_lines():
    text = (FOLDER / "transposes.cu").read_text(encoding="utf-8")
    lines = alone(text, "transpose_padded").splitlines()
    assert ENTRY.findall("\n".join(lines)) == ["transpose_padded"]
    assert [line for line, whole in zip(lines, text.splitlines(), strict=True) if line not in ("", whole)] == []
    assert sum(line != "" for line in lines) == 11  # the others have one line each


def test_a_sparse_matrix_has_as_many_columns_as_its_last_row_ends_with():
    starts, columns, cells = arrays([
        {"dtype": "int32", "n": 5, "make": "offsets", "to": 9},
        {"dtype": "int32", "n": 9, "make": "integers", "from": 0, "to": 4},
        4,
    ])  # fmt: skip
    assert starts.tolist() == sorted(starts.tolist())
    assert (starts[0], starts[-1], cells) == (0, 9, 4)
    assert set(columns.tolist()) <= set(range(4))


def test_the_arrays_of_a_row_are_the_same_ones_each_time():
    floats = {"dtype": "float32", "n": 2}
    kinds = [floats, floats, {"dtype": "uint8", "n": 2}, {"dtype": "int32", "n": 2}, {**floats, "make": "zeros"},
             {"dtype": "int32", "n": 4, "make": "permutation"}]  # fmt: skip
    first, second = ([each.tolist() for each in arrays(kinds)] for _ in range(2))
    assert first == second
    assert first[0] != first[1]
    assert (first[4], sorted(first[5])) == ([0, 0], [0, 1, 2, 3])
