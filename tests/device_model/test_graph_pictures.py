"""Pictures of graphs: a column for each node that another one still waits for."""

import pytest

from device_model.graphs.dependencies import chains, dot, picture


@pytest.mark.parametrize(
    ("befores", "drawn"),
    [
        ([], ""),
        ([[], [0], [1]], "● a\n● b\n● c"),
        ([[], []], "● a\n● b"),
        ([[], [0], [0], [1, 2]], "●   a\n├─● b\n● │ c\n●─╯ d"),
        ([[], [], [0, 1], [1], [2], [3, 4]], "●   a\n│ ● b\n●─┤ c\n│ ● d\n● │ e\n●─╯ f"),
        ([[], [0], [0], [0], [1, 2, 3]], "●     a\n├─●   b\n├─┼─● c\n● │ │ d\n●─┴─╯ e"),
    ],
)
def test_a_picture(befores, drawn):
    assert picture(befores, "abcdefgh"[: len(befores)]).replace("  ", " ") == drawn.replace("  ", " ")


def test_each_node_continues_one_chain():
    assert chains([[], [0], [0], [1, 2], [], [4, 3]]) == [0, 0, 1, 0, 2, 2]


def test_a_label_is_quoted():
    assert dot("g", [[], [0]], ['a "b"', "c\\d"]).splitlines()[1:3] == [
        '  0 [label="a \\"b\\""];',
        '  1 [label="c\\\\d"];',
    ]
