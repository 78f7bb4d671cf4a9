"""The mean of the quarters of a picture in RGB."""

import numpy as np


def quarters(picture):
    halves = picture.reshape(len(picture), 3, 2, 32, 2, 32)
    return halves.mean((1, 3, 5)).reshape(-1, 4).astype(np.float32)
