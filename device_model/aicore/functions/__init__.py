"""Functions of whole tensors, such as Sigmoid and SoftMax, made of vector instructions and temporary buffers.

They take what their instructions take. `device_model.aicore` has the map.
"""
