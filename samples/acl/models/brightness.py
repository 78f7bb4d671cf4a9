"""The mean brightness of the quarters of a picture in NV12."""

import numpy as np


def quarters(picture):
    y = picture[:, :64].astype(np.float32)
    return np.stack([y[:, rows, columns].mean((1, 2)) for rows in HALVES for columns in HALVES], axis=1)


HALVES = slice(0, 32), slice(32, 64)
