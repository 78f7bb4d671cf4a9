"""What the bench of kernels in PTX says about variants: which pairs there are, and how often the faster is named."""

from tests.bench.ptx import summary, variants


def row(kernel, work, graph, measured):
    return {"kernel": kernel, "work": work, "args": [], "graph": graph, "us_graph": measured}


ROWS = [row("sum_tree", 8, 2.0, 3.0), row("sum_warp", 8, 1.0, 2.0), row("sum_warp", 16, 1.0, 2.0),
        row("copy", 8, 1.0, 1.0), row("copy", 8, 1.0, 1.0), row("sum_all", 8, 9.0, 1.98)]  # fmt: skip


def test_variants_share_a_stem_and_a_size():
    pairs = [(one["kernel"], other["kernel"]) for one, other in variants(ROWS)]
    assert pairs == [("sum_tree", "sum_warp"), ("sum_tree", "sum_all"), ("sum_warp", "sum_all")]


def test_pairs_that_are_named_wrong_are_printed():
    assert summary(ROWS, {"copy"}).splitlines()[-3:] == [
        "the faster of two variants: 1 of 3 pairs; 1 of 2 that are 5 % apart or more",
        "  sum_tree and sum_all, 8: -78%, measured +52%",
        "  sum_warp and sum_all, 8: -89%, measured +1%",
    ]


def test_kernels_that_constants_were_read_from_are_apart():
    assert summary(ROWS[3:], {"copy"}).splitlines()[1:3] == [
        "graph, 2 of kernels with constants: median error 0.0%, 90th percentile 0.0%",
        "graph, 1 of other kernels: median error 354.5%, 90th percentile 354.5%",
    ]
