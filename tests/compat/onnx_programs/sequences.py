"""Multiply sequences of two lengths: dynamic dims, a pipeline, and iterations on the device."""

import numpy as np
from ais_bench.infer.interface import InferSession, MemorySummary

session = InferSession(0, "product.om", loop=2)
feeds = []
for batch in (1, 3):
    a = np.arange(batch * 24, dtype=np.float32).reshape(batch, 4, 6) / 100
    b = np.ones((batch, 6, 5), np.float32)
    product, soft = session.infer([a, b], mode="dymdims")
    print(product.shape, np.allclose(product, a @ b), np.allclose(soft.sum(-1), 1))
    feeds.append([a, b])
print(len(session.summary().exec_time_list))
session.reset_summaryinfo()
for product, soft in session.infer_pipeline(feeds, "dymdims"):
    print(product.shape, soft.shape)
print(len(MemorySummary.get_h2d_time_list()) >= 8)
powers = InferSession(0, "square.om")
matrix = np.diag(np.array([1, 2, 3], np.float32))
print(powers.infer_iteration([matrix, matrix], [0, -1], 3)[0].diagonal().tolist())
