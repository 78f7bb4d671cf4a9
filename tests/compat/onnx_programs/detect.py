"""Detect objects in batches of pictures, with non-maximum suppression on the host: a dynamic batch."""

import numpy as np
from ais_bench.infer.interface import InferSession


class Detector:
    def __init__(self, model, device=0, conf=0.2, iou=0.45):
        self.session = InferSession(device_id=device, model_path=model)
        self.size = self.session.get_inputs()[0].shape[2]
        self.conf, self.iou = conf, iou

    def letterbox(self, image):
        canvas = np.full((self.size, self.size, 3), 114, np.uint8)
        height, width = image.shape[:2]
        canvas[:height, :width] = image
        return canvas

    def __call__(self, images):
        batch = np.stack([self.letterbox(each) for each in images]).transpose(0, 3, 1, 2)
        batch = np.ascontiguousarray(batch, dtype=np.float32) / 255.0
        outputs = self.session.infer([batch], mode="dymbatch")
        return [self.nms(each) for each in outputs[0]]

    def nms(self, rows):
        rows = rows[rows[:, 4] > self.conf]
        x1, y1 = rows[:, 0] - rows[:, 2] / 2, rows[:, 1] - rows[:, 3] / 2
        x2, y2 = rows[:, 0] + rows[:, 2] / 2, rows[:, 1] + rows[:, 3] / 2
        area, order, keep = (x2 - x1) * (y2 - y1), rows[:, 4].argsort()[::-1], []
        while order.size:
            i = order[0]
            keep.append(i)
            w = np.maximum(0, np.minimum(x2[i], x2[order[1:]]) - np.maximum(x1[i], x1[order[1:]]))
            h = np.maximum(0, np.minimum(y2[i], y2[order[1:]]) - np.maximum(y1[i], y1[order[1:]]))
            inter = w * h
            order = order[1:][inter / (area[i] + area[order[1:]] - inter) <= self.iou]
        return rows[keep]


if __name__ == "__main__":
    random = np.random.default_rng(11)
    pictures = [random.integers(0, 255, (48, 64, 3), np.uint8) for _ in range(3)]
    detector = Detector("det.om")
    for group in (pictures[:1], pictures[1:]):
        for boxes in detector(group):
            print(len(group), boxes.shape[1], len(boxes) > 0)
