"""What lanes print: `vprintf` with the arguments that it finds in local memory."""

import re
import struct

import numpy as np

from device_model.ptx.lanes.ends import AssertionFailedError
from device_model.ptx.lanes.group import Array, Lanes
from device_model.ptx.lanes.memory import AccessError, load

_FIELD = re.compile(rb"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|j|z|t|L)?([diouxXeEfFgGaAcspn%])")
_LONGEST = 4096  # characters of a text
_BYTE, _WORD = np.dtype("u1"), np.dtype("u4")


def vprintf(at: Lanes, text: Array, arguments: Array) -> Array:
    """Print the text at the address *text*, with what lies at *arguments*; return how many arguments were printed."""
    launch, shape = at.group.launch, at.shape
    texts = np.broadcast_to(text, shape).reshape(-1).tolist()
    packed = np.broadcast_to(arguments, shape).reshape(-1)
    known: dict[int, bytes] = {}
    counts = np.zeros(len(texts), np.int32)
    for number, lane in enumerate(at.flat.reshape(-1).tolist()):
        one = Lanes(at.group, np.array([lane], np.intp))
        if texts[number] not in known:
            known[texts[number]] = read_text(one, texts[number])
        line, counts[number] = _formatted(one, known[texts[number]], int(packed[number]))
        block, thread = divmod(lane, at.group.threads)
        launch.messages.append((at.group.first + block, thread, line))
    return counts.reshape(shape)


def assert_fail(at: Lanes, message: Array, file: Array, line: Array, function: Array) -> None:
    """Stop the kernel, because an assertion of the first lane does not hold."""
    one = Lanes(at.group, at.flat.reshape(-1)[:1])
    texts = [read_text(one, int(each.reshape(-1)[0])).decode("utf-8", "replace") for each in (message, file, function)]
    raise AssertionFailedError(f"{texts[1]}:{int(line.reshape(-1)[0])}: {texts[2]}: assertion `{texts[0]}` failed", at)


def read_text(at: Lanes, address: int) -> bytes:
    """Return the text at *address*, up to its zero."""
    found = bytearray()
    while len(found) < _LONGEST:
        byte = int(load(at, "", np.full((1, 1), address + len(found), np.uint64), _BYTE)[0, 0])
        if not byte:
            return bytes(found)
        found.append(byte)
    raise AccessError(f"a text of more than {_LONGEST} characters at the address {address:#x}", at.flat.reshape(-1))


class _Arguments:
    """The arguments of one lane, each at a multiple of its size."""

    def __init__(self, at: Lanes, address: int) -> None:
        self._at = at
        self._address = address
        self._offset = 0
        self.count = 0

    def take(self, form: str) -> int | float:
        """Return the next argument, in a form of `struct`."""
        size = struct.calcsize(form)
        self._offset = -(-self._offset // size) * size
        words = [
            int(load(self._at, "", np.full((1, 1), self._address + self._offset + at, np.uint64), _WORD)[0, 0])
            for at in range(0, size, 4)
        ]
        self._offset += size
        self.count += 1
        value: int | float = struct.unpack(form, struct.pack(f"<{len(words)}I", *words))[0]
        return value


def _formatted(at: Lanes, text: bytes, address: int) -> tuple[str, int]:
    arguments = _Arguments(at, address)

    def field(match: re.Match[bytes]) -> bytes:
        flags, width, precision, size, kind = match.groups()
        if kind == b"%":
            return b"%"
        if width == b"*":
            width = b"%d" % int(arguments.take("<i"))
        if precision == b"*":
            precision = b"%d" % int(arguments.take("<i"))
        form = b"%" + flags + (width or b"") + (b"." + precision if precision else b"")
        is_long = size in (b"l", b"ll", b"j", b"z", b"t")
        if kind in b"di":
            return (form + b"d") % int(arguments.take("<q" if is_long else "<i"))
        if kind in b"ouxX":
            return (form + (b"d" if kind == b"u" else kind)) % int(arguments.take("<Q" if is_long else "<I"))
        if kind in b"aA":
            return float(arguments.take("<d")).hex().encode()
        if kind in b"eEfFgG":
            return (form + kind) % float(arguments.take("<d"))
        if kind == b"c":
            return (form + b"c") % (int(arguments.take("<I")) & 255)
        value = int(arguments.take("<Q"))
        if kind == b"s":
            return (form + b"s") % (read_text(at, value) if value else b"(null)")
        return (form + b"s") % (b"%#x" % value if value else b"(nil)")

    line = _FIELD.sub(field, text)
    return line.decode("utf-8", "replace"), arguments.count
