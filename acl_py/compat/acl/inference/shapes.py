"""Shapes as texts, as sessions and the command `ais_bench` take them: "data:1,600;img_info:1,600"."""

from collections.abc import Mapping, Sequence


def read(text: str) -> dict[str, list[int]]:
    """Return the dims by the names of the inputs.

    Raises:
        RuntimeError: It is not written so.
    """
    shapes = dict[str, list[int]]()
    for entry in filter(None, (each.strip() for each in text.split(";"))):
        name, colon, dims = entry.rpartition(":")
        try:
            shapes[name] = [int(each) for each in dims.split(",")]
        except ValueError:
            colon = ""
        if not colon or not name:
            raise RuntimeError(f'{entry!r} must be the name of an input and its dims, as in "data:1,600"')
    return shapes


def write(names: Sequence[str], shapes: Sequence[Sequence[int]]) -> str:
    """Return the text for these inputs."""
    pairs = zip(names, shapes, strict=False)
    return ";".join(f"{name}:{','.join(map(str, shape))}" for name, shape in pairs)


def check_names(shapes: Mapping[str, Sequence[int]], names: Sequence[str], option: str) -> None:
    """Raise RuntimeError unless *shapes* are those of the inputs *names*, all of them."""
    if set(shapes) != set(names):
        what = f"{option} names {', '.join(shapes) or 'no input'}"
        raise RuntimeError(f"{what}, and the inputs of the model are {', '.join(names)}")
