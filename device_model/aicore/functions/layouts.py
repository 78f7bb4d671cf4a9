"""TransData: images and weights from planes of channels to blocks of 16 channels, and back.

NCDHW           a plane of pixels for each image, channel and depth, filled up to whole blocks of 32 bytes
NDC1HWC0        for each image, depth and 16 channels: the pixels, with 16 channels each
FRACTAL_Z_3D    for each depth, 16 channels and pixel: 16 images after 16 images, with 16 channels each
"""

from collections.abc import Sequence
from operator import index as integer
from typing import Any, NamedTuple

from device_model.aicore.core.tensors import DataFormat, LocalTensor, uint16
from device_model.aicore.functions.operands import buffer_and
from device_model.aicore.functions.rows import Rows
from device_model.aicore.functions.scratch import temporary
from device_model.aicore.vector.fill import Duplicate
from device_model.aicore.vector.masks import MAX_REPEATS
from device_model.aicore.vector.transdata import ROWS, TransDataTo5HD, TransDataTo5HDParams
from device_model.aicore.vector.unit import check_type
from device_model.kernel.findings import KernelError

_TYPES = ("int16", "uint16", "float16", "bfloat16")
_MOST_STRIDE = 65535  # blocks from one repeat to the next
_PACKED = DataFormat.NDC1HWC0, DataFormat.FRACTAL_Z_3D


class TransDataConfig(NamedTuple):
    """From which layout to which (Ascend C: TransDataConfig): one of them is NCDHW."""

    src_format: DataFormat
    dst_format: DataFormat


class TransDataParams(NamedTuple):
    """The shapes of source and destination (Ascend C: TransDataParams), each as its layout has them.

    Attributes:
        src_layout: In NCDHW (n, c, d, h, w), without what fills up a plane. In NDC1HWC0 (n, d, c1, h, w, 16), and in
            FRACTAL_Z_3D (d, c1, h, w, n1, 16, 16).
        dst_layout: The same of the destination.
    """

    src_layout: Sequence[int]
    dst_layout: Sequence[int]


class _Sizes(NamedTuple):
    """Images, channels, depth and pixels of a plane; their numbers in sixteens; and whether images are in sixteens."""

    n: int
    c: int
    d: int
    hw: int
    is_fractal: bool

    @property
    def c1(self) -> int:
        return -(-self.c // ROWS)

    @property
    def n1(self) -> int:
        return -(-self.n // ROWS)

    @property
    def padded(self) -> int:
        """The elements of a plane in NCDHW."""
        return -(-self.hw // ROWS) * ROWS

    def first(self, image: int, depth: int, group: int) -> tuple[int, int]:
        """Return where the first pixel of 16 channels of an image lies, and how far the next one is behind it."""
        if self.is_fractal:
            step = self.n1 * ROWS * ROWS
            return (depth * self.c1 + group) * self.hw * step + image * ROWS, step
        return ((image * self.d + depth) * self.c1 + group) * self.hw * ROWS, ROWS


def TransData(
    dst: LocalTensor,
    src: LocalTensor,
    *operands: Any,
    config: TransDataConfig,
) -> None:
    """Bring images or weights to another layout (Ascend C: TransData), with TransDataTo5HD.

    Channels and images that fill up 16 become 0. What fills up the planes of a dst in NCDHW is undefined.

    Args:
        dst: The tensor to write, in UB: int16, uint16, half or bfloat16. It is not src.
        src: The tensor to read, of the same type.
        operands: `(params)` or `(tmp, params)`. *params* are TransDataParams, the two shapes; *tmp* is the temporary
            buffer, in UB, by default the bytes of UB that no buffer of the TPipe has.
        config: The two layouts.

    Raises:
        TypeError: There are more or fewer operands.
        KernelError: The layouts or shapes do not belong together, a type is impossible, a tensor is too small, or the
            temporary buffer is.
    """
    name = "TransData"
    tmp, params = buffer_and(name, operands, TransDataParams)
    sizes, is_packing = _sizes(name, config, params)
    check_type(name, "dst", dst, _TYPES)
    check_type(name, "src", src, (dst.dtype.name,))
    images = sizes.n1 * ROWS if sizes.is_fractal else sizes.n
    plain, packed = (src, dst) if is_packing else (dst, src)
    for tensor, needed in (
        (plain, sizes.n * sizes.c * sizes.d * sizes.padded),
        (packed, images * sizes.d * sizes.c1 * sizes.hw * ROWS),
    ):
        if tensor.size < needed:
            raise KernelError(
                f"{name} with {config}", f"{tensor!r} has {tensor.size} elements, and {params} needs {needed}"
            )
    rest = Rows(name, temporary(name, tmp, dst, src))
    # In place of channels and pixels that are not there: zeros that are read, or room for what is not used.
    channel, pixel = rest.take(uint16, sizes.padded), rest.take(uint16, ROWS)
    if is_packing and (sizes.c % ROWS or images > sizes.n):
        Duplicate(channel, 0, sizes.padded)
    if not is_packing and sizes.hw % ROWS:
        Duplicate(pixel, 0, ROWS)
    for image in range(images if is_packing else sizes.n):
        for depth in range(sizes.d):
            for group in range(sizes.c1):
                planes = [
                    plain.address + ((image * sizes.c + number) * sizes.d + depth) * sizes.padded * 2
                    if number < sizes.c and image < sizes.n
                    else channel.address
                    for number in range(group * ROWS, (group + 1) * ROWS)
                ]
                first, step = sizes.first(image, depth, group)
                _move(planes, packed.address + first * 2, step, sizes.hw, pixel.address, is_packing=is_packing)


def _sizes(name: str, config: TransDataConfig, params: TransDataParams) -> tuple[_Sizes, bool]:
    """Check the layouts and shapes; return the sizes, and whether the destination has blocks of 16 channels."""
    is_packing = config.src_format is DataFormat.NCDHW
    other = config.dst_format if is_packing else config.src_format
    if other not in _PACKED or (not is_packing and config.dst_format is not DataFormat.NCDHW):
        raise KernelError(
            f"{name} with {config}", "it goes from NCDHW to NDC1HWC0 or FRACTAL_Z_3D, or from one of these to NCDHW"
        )
    shapes = [tuple(map(integer, shape)) for shape in params]
    plain, packed = shapes if is_packing else reversed(shapes)
    if len(plain) != 5 or min(plain) < 1:
        raise KernelError(f"{name} with {params}", "a shape in NCDHW is (n, c, d, h, w), each 1 or more")
    n, c, d, h, w = plain
    sizes = _Sizes(n, c, d, h * w, is_fractal=other is DataFormat.FRACTAL_Z_3D)
    expected: tuple[int, ...] = (n, d, sizes.c1, h, w, ROWS)
    if sizes.is_fractal:
        expected = d, sizes.c1, h, w, sizes.n1, ROWS, ROWS
    if packed != expected:
        raise KernelError(f"{name} with {params}", f"{plain} in NCDHW is {expected} in {other.name}")
    return sizes, is_packing


def _move(planes: list[int], first: int, step: int, pixels: int, spare: int, *, is_packing: bool) -> None:
    """Issue what brings *pixels* pixels of 16 channels from the *planes* to their places, or back; all are addresses.

    The first pixel is at *first*, and the next ones *step* elements behind each other.
    """
    whole, rest = divmod(pixels, ROWS)
    stride = step * ROWS * 2 // 32
    at_once = MAX_REPEATS if stride <= _MOST_STRIDE else 1
    for start in range(0, whole, at_once):
        count = min(at_once, whole - start)
        _issue(planes, first, step, start * ROWS, count, stride, is_packing=is_packing, places=ROWS, spare=spare)
    if rest:
        _issue(planes, first, step, whole * ROWS, 1, stride, is_packing=is_packing, places=rest, spare=spare)


def _issue(
    planes: list[int], first: int, step: int, pixel: int, repeats: int, stride: int, *, is_packing: bool, places: int,
    spare: int,
) -> None:  # fmt: skip
    channels = [each + pixel * 2 for each in planes]
    pixels = [first + (pixel + each) * step * 2 if each < places else spare for each in range(ROWS)]
    strides: Any = (stride, 1) if is_packing else (1, stride)
    if repeats == 1:
        strides = 0, 0
    operands = (pixels, channels) if is_packing else (channels, pixels)
    TransDataTo5HD(*operands, TransDataTo5HDParams(False, False, repeats, *strides), uint16)
