"""A profiler that ends after each few operators, begins again in its own folder, and reads what it has found."""

import csv
import glob
import os
import tempfile

import acl

acl.init()
acl.rt.set_device(0)
desc = acl.create_tensor_desc(1, [128], 2)
memory, _ = acl.rt.malloc(256, 0)
acl.rt.memset(memory, 256, 0, 256)
buffer, attributes = acl.create_data_buffer(memory, 256), acl.op.create_attr()
config = acl.prof.create_config([0], 1, 0, 6)
rows = []
for names in (["Add", "Mul"], ["Relu"], ["Add"]):
    folder = tempfile.mkdtemp(dir=".")
    assert acl.prof.init(folder) == 0
    assert acl.prof.start(config) == 0
    for name in names:
        inputs = 1 if name == "Relu" else 2
        acl.op.execute_v2(name, [desc] * inputs, [buffer] * inputs, [desc], [buffer], attributes, 0)
    acl.rt.synchronize_device()
    assert (acl.prof.stop(config), acl.prof.finalize()) == (0, 0)
    (table,) = glob.glob(os.path.join(folder, "PROF*", "mindstudio_profiler_output", "op_summary*.csv"))
    with open(table, newline="") as file:
        rows.append([row["OP Type"] for row in csv.DictReader(file)])
print(rows)
acl.prof.destroy_config(config)
acl.op.destroy_attr(attributes)
acl.destroy_data_buffer(buffer)
acl.destroy_tensor_desc(desc)
acl.rt.free(memory)
acl.rt.reset_device(0)
acl.finalize()
