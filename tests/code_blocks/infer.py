import acl
import numpy as np

acl.init()
acl.rt.set_device(0)
acl.rt.get_devices_topo(0, 0)  # the return code is ignored, as in most scripts
model, _ = acl.mdl.load_from_file("models/classifier.om")
buffers = [acl.rt.malloc(size, 0)[0] for size in (256, 40, 4096)]
upload, _ = acl.rt.create_stream()
compute, _ = acl.rt.create_stream()


def dataset(buffer, size):
    made = acl.mdl.create_dataset()
    acl.mdl.add_dataset_buffer(made, acl.create_data_buffer(buffer, size))
    return made


images, inputs, outputs = np.ones(64, np.float32).tobytes(), dataset(buffers[0], 256), dataset(buffers[1], 40)
pinned, _ = acl.rt.malloc_host(256)
acl.rt.memcpy(pinned, 256, acl.util.bytes_to_ptr(images), 256, 0)
acl.rt.memcpy_async(buffers[0], 256, pinned, 256, 1, upload)
acl.mdl.execute_async(model, inputs, outputs, compute)
acl.rt.synchronize_device()
for _ in range(3):
    acl.rt.free(buffers[2])
