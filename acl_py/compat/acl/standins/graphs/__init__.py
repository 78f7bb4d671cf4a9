"""ONNX graphs as models: their tensors and shapes, what they cost, and onnxruntime, which computes them.

The packages onnx and onnxruntime (extra `onnx`) are imported when a model needs them, never before.
"""
