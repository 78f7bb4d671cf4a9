"""`acl-py demo` does its job four times and shows what came of it."""

import re

from acl_py.tools import demo


def test_the_demo_draws_four_timelines_and_compares_them(capsys):
    demo.main()
    text = capsys.readouterr().out
    assert "\x1b" not in text  # not a terminal
    assert max(map(len, text.splitlines())) <= 100
    assert re.findall(r"^\d  (.*?) {3,}.*same result as NumPy$", text, re.MULTILINE) == [
        "synchronous, pageable memory",
        "asynchronous, pageable memory",
        "asynchronous, pinned memory",
        "the same over three streams",
    ]
    speedups = [float(number) for number in re.findall(r"([\d.]+) x", text)]
    assert speedups[0] == 1.0
    assert speedups == sorted(speedups)
    assert speedups[3] > 1.5 * speedups[2] > 1.5 * speedups[1]
