"""What the tests of convolutions share: operands in the layouts of a cube core, and what NumPy makes of them."""

import numpy as np


def in_planes(images):
    """Images (batch, channels, depth, rows, columns) as planes of 16 channels: NDC1HWC0."""
    batch, channels, *size = images.shape
    whole = np.zeros((batch, -(-channels // 16) * 16, *size), images.dtype)
    whole[:, :channels] = images
    return np.ascontiguousarray(whole.reshape(batch, -1, 16, *size).transpose(0, 3, 1, 4, 5, 2))


def in_fractals(weights):
    """Weights (output channels, channels, depth, rows, columns) as fractals: FRACTAL_Z_3D."""
    out, channels, *kernel = weights.shape
    whole = np.zeros((-(-out // 16) * 16, -(-channels // 16) * 16, *kernel), weights.dtype)
    whole[:out, :channels] = weights
    fractals = whole.reshape(len(whole) // 16, 16, whole.shape[1] // 16, 16, *kernel)
    return np.ascontiguousarray(fractals.transpose(4, 2, 5, 6, 0, 1, 3))


def _seen(tap, outs, stride, dilation):
    """Where the padded input has what element *tap* of the filter sees."""
    return tuple(
        slice(place * dilation[axis], place * dilation[axis] + (outs[axis] - 1) * stride[axis] + 1, stride[axis])
        for axis, place in enumerate(tap)
    )


def convolved(images, weights, bias, padding, stride, dilation):
    """The convolution, tap by tap, in double precision."""
    around = ((0, 0), (0, 0), padding[:2], padding[2:4], padding[4:])
    padded = np.pad(images.astype(np.float64), around)
    out = [
        (padded.shape[2 + axis] - (weights.shape[2 + axis] - 1) * dilation[axis] - 1) // stride[axis] + 1
        for axis in range(3)
    ]
    total = np.zeros((len(images), len(weights), *out))
    for tap in np.ndindex(weights.shape[2:]):
        seen = padded[:, :, *_seen(tap, out, stride, dilation)]
        total += np.einsum("ncdhw,oc->nodhw", seen, weights[:, :, *tap].astype(np.float64))
    return total if bias is None else total + bias.astype(np.float64)[:, None, None, None]


def by_input(gradients, weights, size, padding, stride, dilation):
    """The gradient of a convolution by its input of this *size*, tap by tap, in double precision."""
    around = [
        before + length + behind for before, length, behind in zip(padding[::2], size, padding[1::2], strict=True)
    ]
    total = np.zeros((len(gradients), weights.shape[1], *around))
    for tap in np.ndindex(weights.shape[2:]):
        part = np.einsum("nodhw,oc->ncdhw", gradients.astype(np.float64), weights[:, :, *tap].astype(np.float64))
        total[:, :, *_seen(tap, gradients.shape[2:], stride, dilation)] += part
    inner = (slice(before, before + length) for before, length in zip(padding[::2], size, strict=True))
    return total[:, :, *inner]


def by_weights(images, gradients, kernel, padding, stride, dilation):
    """The gradient of a convolution by its weights, with a filter of size *kernel*, tap by tap, in double precision."""
    padded = np.pad(images.astype(np.float64), ((0, 0), (0, 0), padding[:2], padding[2:4], padding[4:]))
    total = np.zeros((gradients.shape[1], images.shape[1], *kernel))
    for tap in np.ndindex(*kernel):
        seen = padded[:, :, *_seen(tap, gradients.shape[2:], stride, dilation)]
        total[:, :, *tap] = np.einsum("nodhw,ncdhw->oc", gradients.astype(np.float64), seen)
    return total
