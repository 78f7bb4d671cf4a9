"""The maps in the docstrings of both packages: every room and top module is on its map, in the order of the layers.

A map is indented by four spaces, and what is inside a room by eight. In each line names come first, and a description
after two spaces or more. What does not begin at one of the two columns goes on with a description.
"""

import importlib
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAPS = ("acl_py", "device_model")
_LINE = re.compile(r"( {4}| {8})(?! )(?P<names>\S+(?: \S+)*)")


def lines_of(package: str) -> list[tuple[bool, list[str]]]:
    """The lines of the map of *package*: whether each is inside a room, and the names in it."""
    # The map ends with the first paragraph that is not indented; other lists may follow.
    text = re.search(r"^    .*?(?=^\S|\Z)", importlib.import_module(package).__doc__, re.MULTILINE | re.DOTALL)[0]
    found = [_LINE.match(line) for line in text.splitlines()]
    return [(len(each[1]) == 8, each["names"].replace(",", "").split()) for each in found if each is not None]


def on_the_map(package: str) -> dict[str, list[str]]:
    """The rooms and top modules on the map of *package* in their order, each with the names inside it."""
    found: dict[str, list[str]] = {}
    for is_inside, names in lines_of(package):
        if is_inside:
            found[next(reversed(found))] += names
        else:
            found |= {name.rstrip("/"): [] for name in names}
    return found


def modules_in(room: str) -> set[str]:
    """The modules and folders of code in *room*, such as "acl_py/compat/acl"."""
    return {module.name for module in pkgutil.iter_modules([str(ROOT / room)])}


@pytest.mark.parametrize("package", MAPS)
def test_every_room_and_top_module_is_on_the_map_and_nothing_else(package):
    assert sorted(name.split("/")[0] for name in on_the_map(package)) == sorted(modules_in(package))


@pytest.mark.parametrize("package", MAPS)
def test_what_the_map_names_inside_a_room_is_there_and_named_once(package):
    for room, names in on_the_map(package).items():
        inside = [name.rstrip("/") for name in names]
        assert len(set(inside)) == len(inside), room
        assert set(inside) <= modules_in(f"{package}/{room}"), room


@pytest.mark.parametrize("package", MAPS)
def test_a_slash_says_what_is_a_room(package):
    top = [name for is_inside, names in lines_of(package) if not is_inside for name in names]
    folders = [name for name in top if (ROOT / package / name).is_dir()]
    assert folders == [name for name in top if name.endswith("/")]


@pytest.mark.parametrize("package", MAPS)
def test_the_map_has_the_order_of_the_layers(package):
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    [layers] = [each["layers"] for each in settings["contracts"] if each["id"] == package]
    heights = {name: height for height, layer in enumerate(layers) for name in layer.split(" | ")}
    # acl_py has the entry point beside the command line, on one line.
    found = [heights[name.split("/")[0]] for name in on_the_map(package) if name != "__main__"]
    assert found == sorted(found)
