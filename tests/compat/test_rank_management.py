"""`hccl.manage.api`: the numbers of a process that is one rank of several."""

import json
import os
import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

from acl_py.compat.acl import install, uninstall
from tests import forks


@pytest.fixture
def api(monkeypatch):
    """A function that gives the module in a process with these variables; ranks are on the servers of a table."""

    def started(**variables):
        uninstall()
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        install(replace=True)
        return import_module("hccl.manage.api")

    yield started
    uninstall()


def table(path, *servers):
    """Write the table of ranks of *servers*, which have so many cards each."""
    numbers = iter(range(sum(servers)))
    path.write_text(json.dumps({
        "version": "1.0", "status": "completed", "server_count": str(len(servers)),
        "server_list": [
            {"server_id": f"10.0.0.{place}",
             "device": [{"device_id": str(card), "rank_id": str(next(numbers))} for card in range(cards)]}
            for place, cards in enumerate(servers)
        ],
    }))  # fmt: skip
    return str(path)


def test_a_process_of_its_own_is_the_only_rank(api):
    hccl = api()
    assert (hccl.get_rank_size(), hccl.get_rank_id()) == (1, 0)
    assert (hccl.get_local_rank_size(), hccl.get_local_rank_id("hccl_world_group")) == (1, 0)


def test_a_group_gives_its_ranks_new_numbers(api, tmp_path):
    hccl = api(RANK_ID="5", RANK_TABLE_FILE=table(tmp_path / "ranks.json", 4, 4))
    assert (hccl.get_rank_size(), hccl.get_rank_id()) == (8, 5)
    assert (hccl.get_local_rank_size(), hccl.get_local_rank_id()) == (4, 1)
    hccl.create_group("tensor", 3, [1, 7, 5])
    assert (hccl.get_rank_size("tensor"), hccl.get_rank_id("tensor")) == (3, 2)
    assert (hccl.get_local_rank_size("tensor"), hccl.get_local_rank_id("tensor")) == (2, 1)
    assert [hccl.get_world_rank_from_group_rank("tensor", place) for place in range(3)] == [1, 7, 5]
    assert [hccl.get_group_rank_from_world_rank(rank, "tensor") for rank in (1, 5, 7)] == [0, 2, 1]
    hccl.create_group("others", 2, [0, 2])
    with pytest.raises(ValueError, match=r"^rank 5 is not in group 'others', which has the ranks 0, 2$"):
        hccl.get_local_rank_id("others")
    hccl.destroy_group("tensor")
    with pytest.raises(ValueError, match=r"^there is no group 'tensor': create_group"):
        hccl.get_rank_size("tensor")


WRONG = [
    ("create_group", ("g", 2, [0, 4]), ValueError, "rank 4 of rank_ids does not exist: the world has 4"),
    ("create_group", ("g", 2, [1, 1]), ValueError, "rank 1 of rank_ids is there twice"),
    ("create_group", ("g", 3, [0, 1]), ValueError, "rank_num is 3, and rank_ids has 2 ranks"),
    ("create_group", ("g", 2, (0, 1)), TypeError, "rank_ids must be a list of ints, not (0, 1)"),
    ("create_group", ("", 1, [0]), ValueError, "the name of a group has 1 to 127 bytes, not 0"),
    ("create_group", ("hccl_world_group", 1, [0]), ValueError, "there is a group 'hccl_world_group' already"),
    ("destroy_group", ("hccl_world_group",), ValueError, "hccl_world_group cannot be destroyed"),
    ("get_rank_id", (3,), TypeError, "group must be a str, not 3"),
    ("get_world_rank_from_group_rank", ("hccl_world_group", 4), ValueError, "has the ranks 0 to 3, and no rank 4"),
    ("get_world_rank_from_group_rank", ("hccl_world_group", -1), ValueError, "group_rank_id must be 0 or more, not -1"),
]


@pytest.mark.parametrize(("name", "arguments", "kind", "text"), WRONG, ids=lambda each: str(each)[:40])
def test_a_wrong_argument_is_refused_by_name(api, name, arguments, kind, text):
    hccl = api(RANK_SIZE="4", RANK_ID="2")
    with pytest.raises(kind) as error:
        getattr(hccl, name)(*arguments)
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"RANK_ID": "4", "RANK_SIZE": "4"}, "RANK_ID is 4, and there are 4 ranks: set RANK_SIZE or RANK_TABLE_FILE"),
        ({"RANK_ID": "two"}, "the variable RANK_ID must be a number, not 'two'"),
        ({"RANK_TABLE_FILE": "nowhere.json"}, "RANK_TABLE_FILE nowhere.json is no rank table: FileNotFoundError"),
    ],
)
def test_variables_that_fit_nothing_are_named(api, variables, text):
    hccl = api(**variables)
    with pytest.raises(ValueError, match="RANK") as error:
        hccl.get_rank_id()
    assert text in str(error.value)


def test_it_is_gone_when_acl_is(api):
    api()
    uninstall()
    assert not [name for name in sys.modules if name.startswith("hccl")]
    assert find_spec("hccl") is None


def test_a_script_and_its_children_find_it(tmp_path):
    (tmp_path / "script.py").write_text(
        "import subprocess, sys\n"
        "from hccl.manage.api import get_rank_id, get_rank_size\n"
        "print(get_rank_id(), get_rank_size(), flush=True)\n"
        "if len(sys.argv) == 1:\n"
        "    subprocess.run([sys.executable, __file__, 'child'], check=True)\n"
    )
    ranks = {"RANK_ID": "1", "RANK_SIZE": "2"}
    done = forks.run("-m", "acl_py", "run", tmp_path / "script.py", env=os.environ | ranks)
    assert done.stdout.splitlines()[:2] == ["1 2", "1 2"], done.stderr
