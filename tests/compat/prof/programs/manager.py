"""A manager of resources that profiles if it is told so: it begins before the device is set."""

import glob
import os

import acl


class ACLResourceManager:
    def __init__(self, device_id=0, stream_count=1, profiling_mode=False):
        self.device_id, self.profiling_mode = device_id, profiling_mode
        self.streams = [None] * stream_count
        self.profiling_config = None

    def init(self, output_path):
        acl.init()
        if self.profiling_mode:
            status = acl.prof.init(output_path + "/profiling")
            self.profiling_config = acl.prof.create_config([0], 1, 0, 7)
            status = acl.prof.start(self.profiling_config)
            print("profiling:", status)
        acl.rt.set_device(self.device_id)
        self.context, status = acl.rt.create_context(self.device_id)
        for index in range(len(self.streams)):
            self.streams[index], status = acl.rt.create_stream()

    def finalize(self):
        for stream in self.streams:
            acl.rt.destroy_stream(stream)
        acl.rt.destroy_context(self.context)
        if self.profiling_mode:
            print(acl.prof.stop(self.profiling_config), acl.prof.destroy_config(self.profiling_config),
                  acl.prof.finalize())  # fmt: skip
        acl.rt.reset_device(self.device_id)
        acl.finalize()


manager = ACLResourceManager(stream_count=2, profiling_mode=True)
manager.init(".")
device, _ = acl.rt.malloc(4096, 0)
host, _ = acl.rt.malloc_host(4096)
acl.rt.memset(host, 4096, 0, 4096)
for stream in manager.streams:
    acl.rt.memcpy_async(device, 4096, host, 4096, 1, stream)
    acl.rt.synchronize_stream(stream)
acl.rt.free(device)
acl.rt.free_host(host)
manager.finalize()
names = {os.path.basename(each).rpartition("_")[0] for each in glob.glob("profiling/PROF_*/mindstudio*/*")}
print(sorted(names))
(path,) = glob.glob("profiling/PROF_*/mindstudio_profiler_output/task_time_*.csv")
with open(path) as file:
    print(*(",".join(line.split(",")[1:6]) for line in file.read().splitlines()[1:]))
