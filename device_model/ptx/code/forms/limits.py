"""The numbers that an instruction takes only some of, and the instructions that newer versions of PTX have not."""

from device_model.ptx.text.syntax import Instruction, Module, Number

_BARRIERS = 16  # of a block
_WARP = 32
_SIZES = {"ca": (4, 8, 16), "cg": (16,)}  # bytes that cp.async copies
_SYNC_ONLY = (6, 4), 70  # from this version on, for targets from this one on


def misfit(module: Module, item: Instruction) -> str:
    """Return what is wrong with the numbers of *item*, which has a form of *module*; "" if nothing is."""
    match item.name:
        case "bar" | "barrier" if "warp" not in item.modifiers and "cluster" not in item.modifiers:
            return _of_barrier(item)
        case "cp" if item.modifiers[:1] == ("async",) and len(item.modifiers) > 1:
            return _of_copy(item)
        case "shfl" | "vote" if "sync" not in item.modifiers:
            version, target = _SYNC_ONLY
            number = int("".join(filter(str.isdecimal, module.target)) or 0)
            return (
                f"PTX {version[0]}.{version[1]} and newer has it with .sync only"
                if (module.version >= version and number >= target)
                else ""
            )
    return ""


def _of_barrier(item: Instruction) -> str:
    number, *more = item.operands[1:] if "red" in item.modifiers else item.operands
    if isinstance(number, Number) and not 0 <= number.value < _BARRIERS:
        return f"there is no barrier {number.value}; a block has the barriers 0 to {_BARRIERS - 1}"
    count = more[0] if more else None
    if isinstance(count, Number) and count.value % _WARP:
        return f"{count.value} threads are no whole warps, and whole warps arrive at a barrier"
    return ""


def _of_copy(item: Instruction) -> str:
    sizes = _SIZES.get(item.modifiers[1])
    if sizes is None or len(item.operands) < 3:
        return ""
    size, *more = item.operands[2:]
    if not isinstance(size, Number) or size.value not in sizes:
        return f"it copies {' or '.join(map(str, sizes))} bytes"
    read = more[0] if more else None
    if isinstance(read, Number) and not 0 <= read.value <= size.value:
        return f"it copies {size.value} bytes, and reads {read.value} of them"
    return ""
