"""Classify a picture: static shapes, in the form of a script beside a model zoo's."""

import argparse
import time

import numpy as np
from ais_bench.infer.interface import InferSession
from PIL import Image


def preprocess(path, size):
    image = np.asarray(Image.open(path).convert("RGB").resize((size, size)), np.float32) / 255
    mean, std = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)
    return np.ascontiguousarray(((image - mean) / std).transpose(2, 0, 1)[None])


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


parser = argparse.ArgumentParser()
parser.add_argument("--model", default="resnet50.om")
parser.add_argument("--image", default="cat.png")
parser.add_argument("--device", type=int, default=0)
args = parser.parse_args()

session = InferSession(args.device, args.model)
for desc in session.get_inputs():
    print("input:", desc.name, desc.shape, desc.datatype, desc.realsize)
for desc in session.get_outputs():
    print("output:", desc.name, desc.shape, desc.datatype)
data = preprocess(args.image, session.get_inputs()[0].shape[2])
begin = time.time()
outputs = session.infer([data])
assert time.time() >= begin
scores = softmax(outputs[0][0])
for index in scores.argsort()[::-1][:3]:
    print(f"class {index}: {scores[index]:.5f}")
np.save("scores.npy", outputs[0])
print(f"{session.sumary().exec_time_list[-1]:.4f} ms")
session.free_resource()
InferSession.finalize()
