"""Profiling as the vendor's guide has it: init, a configuration, start, the work, stop, and then the tables."""

import csv
import glob

import acl

ACL_PROF_ACL_API, ACL_PROF_TASK_TIME, ACL_PROF_AICORE_METRICS = 0x0001, 0x0002, 0x0004
ACL_AICORE_PIPE_UTILIZATION = 1

acl.init()
acl.rt.set_device(0)
context, ret = acl.rt.create_context(0)
stream, ret = acl.rt.create_stream()
model_id, ret = acl.mdl.load_from_file("net.om")
given, wanted, pointers = acl.mdl.create_dataset(), acl.mdl.create_dataset(), []
for dataset in (given, wanted):
    pointer, ret = acl.rt.malloc(64, 0)
    acl.rt.memset(pointer, 64, 0, 64)
    acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(pointer, 64))
    pointers.append(pointer)
ret = acl.prof.init("profiling")
assert ret == 0, ret
config = acl.prof.create_config([0], ACL_AICORE_PIPE_UTILIZATION, 0,
                                ACL_PROF_ACL_API | ACL_PROF_TASK_TIME | ACL_PROF_AICORE_METRICS)  # fmt: skip
assert acl.prof.start(config) == 0
for _ in range(3):
    assert acl.mdl.execute(model_id, given, wanted) == 0
assert acl.mdl.execute_async(model_id, given, wanted, stream) == 0
assert acl.rt.synchronize_stream(stream) == 0
assert (acl.prof.stop(config), acl.prof.destroy_config(config), acl.prof.finalize()) == (0, 0, 0)
(path,) = glob.glob("profiling/PROF_*/mindstudio_profiler_output/op_summary_*.csv")
with open(path, newline="") as file:
    for row in csv.DictReader(file):
        print(row["Op Name"], row["Task Type"], row["Task Duration(us)"])
(path,) = glob.glob("profiling/PROF_*/mindstudio_profiler_output/op_statistic_*.csv")
with open(path, newline="") as file:
    print(*(f"{row['OP Type']} x {row['Count']}: {row['Total Time(us)']} us" for row in csv.DictReader(file)))
for dataset, pointer in zip((given, wanted), pointers, strict=True):
    acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(dataset, 0))
    acl.mdl.destroy_dataset(dataset)
    acl.rt.free(pointer)
acl.mdl.unload(model_id)
acl.rt.destroy_stream(stream)
acl.rt.destroy_context(context)
acl.rt.reset_device(0)
acl.finalize()
