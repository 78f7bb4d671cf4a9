"""Shows: ais_bench.infer.interface: one picture, a dynamic batch, a pipeline, and two cards at once.

Scenario: the usual way to use a model file on an Ascend 310P: a class loads it, and takes and returns arrays.
"""

import os

import numpy as np
from ais_bench.infer.interface import InferSession, MultiDeviceSession

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
ONE, BATCH = (os.path.join(MODELS, name) for name in ("classifier.om", "classifier_batch.om"))


def best(scores):
    return [f"class {row.argmax()} {row.max():.3f}" for row in scores]


def main():
    rng = np.random.default_rng(1)
    pictures = [rng.random((1, 64), dtype=np.float32) for _ in range(4)]

    session = InferSession(device_id=0, model_path=ONE)
    for desc in session.get_inputs():
        print("input", desc.name, desc.shape, desc.datatype, f"{desc.realsize} bytes")
    print("one:", best(session.infer([pictures[0]])[0]), f"{session.summary().exec_time_list[-1]:.3f} ms")
    session.free_resource()

    session = InferSession(0, BATCH)
    for batch in (pictures[:2], pictures):
        scores = session.infer([np.concatenate(batch)], mode="dymbatch")[0]
        print(f"{len(batch)} at once:", best(scores), f"{session.summary().exec_time_list[-1]:.3f} ms")
    outputs = session.infer_pipeline([[each] for each in pictures[2:]], mode="dymbatch")
    print("pipeline:", [best(scores) for (scores,) in outputs])
    try:
        session.infer([np.concatenate(pictures[:3])], mode="dymbatch")
    except RuntimeError as error:
        print("refused:", error)
    session.free_resource()

    outputs = MultiDeviceSession(ONE).infer({0: [[pictures[0]], [pictures[1]]], 1: [[pictures[2]]]})
    for device, results in outputs.items():
        print(f"card {device}:", [best(scores) for (scores,) in results])
    InferSession.finalize()


if __name__ == "__main__":
    main()
