"""Shows: a range of mstx around inference, and the tables that acl.prof writes: operators, calls, and ranges.

Scenario: a program that profiles itself, as the vendor's guide does, and looks at the tables when it ends.
"""

import csv
import glob
import os
import tempfile

import acl
import mstx
import numpy as np

ACL_PROF_ACL_API, ACL_PROF_TASK_TIME, ACL_PROF_MSPROFTX = 0x0001, 0x0002, 0x0080
ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", "classifier.om")


def check_ret(message, ret):
    if ret != 0:
        raise Exception(f"{message} failed ret={ret}: {acl.get_recent_err_msg()}")


def made(message, answer):
    value, ret = answer
    check_ret(message, ret)
    return value


class Profiler:
    """Profiles what runs within it."""

    def __init__(self, folder, device=0):
        check_ret("prof.init", acl.prof.init(folder))
        self.folder = folder
        self.config = acl.prof.create_config([device], 0, 0, ACL_PROF_ACL_API | ACL_PROF_TASK_TIME | ACL_PROF_MSPROFTX)

    def __enter__(self):
        check_ret("prof.start", acl.prof.start(self.config))

    def __exit__(self, *_):
        check_ret("prof.stop", acl.prof.stop(self.config))
        check_ret("prof.destroy_config", acl.prof.destroy_config(self.config))
        check_ret("prof.finalize", acl.prof.finalize())

    def table(self, name):
        """Return the rows of the one table of this name."""
        (path,) = glob.glob(os.path.join(self.folder, "PROF_*", "mindstudio_profiler_output", f"{name}_2*.csv"))
        with open(path, newline="") as file:
            return list(csv.DictReader(file))


def infer(model, stream, pictures):
    """Run the model for each picture, with a range around each."""
    given = made("malloc", acl.rt.malloc(256, ACL_MEM_MALLOC_HUGE_FIRST))
    wanted = made("malloc", acl.rt.malloc(40, ACL_MEM_MALLOC_HUGE_FIRST))
    datasets = acl.mdl.create_dataset(), acl.mdl.create_dataset()
    parts = acl.create_data_buffer(given, 256), acl.create_data_buffer(wanted, 40)
    for dataset, part in zip(datasets, parts, strict=True):
        check_ret("add_dataset_buffer", acl.mdl.add_dataset_buffer(dataset, part)[1])
    for number, picture in enumerate(pictures):
        span = mstx.range_start(f"picture {number}", stream)
        pointer = acl.util.bytes_to_ptr(picture)
        check_ret("memcpy", acl.rt.memcpy_async(given, 256, pointer, 256, ACL_MEMCPY_HOST_TO_DEVICE, stream))
        check_ret("execute_async", acl.mdl.execute_async(model, *datasets, stream))
        mstx.range_end(span)
    mstx.mark("all is queued")
    check_ret("synchronize_stream", acl.rt.synchronize_stream(stream))
    for dataset, part in zip(datasets, parts, strict=True):
        acl.destroy_data_buffer(part)
        acl.mdl.destroy_dataset(dataset)
    check_ret("free", acl.rt.free(given))
    check_ret("free", acl.rt.free(wanted))


def main(folder):
    check_ret("init", acl.init())
    check_ret("set_device", acl.rt.set_device(0))
    stream = made("create_stream", acl.rt.create_stream())
    model = made("load_from_file", acl.mdl.load_from_file(MODEL))
    profiler = Profiler(folder)
    with profiler:
        infer(model, stream, [np.full((1, 64), value, np.float32).tobytes() for value in (0.1, 0.5, 0.9)])
    check_ret("unload", acl.mdl.unload(model))
    check_ret("destroy_stream", acl.rt.destroy_stream(stream))
    check_ret("reset_device", acl.rt.reset_device(0))
    check_ret("finalize", acl.finalize())
    for row in profiler.table("op_statistic"):
        print(f"operator {row['OP Type']}: {row['Count']} times, {row['Total Time(us)']} us in all")
    for row in profiler.table("msprof_tx"):
        spans = [[row[f"{where}{name}_time(us)"] for name in ("Start", "End")] for where in ("", "Device ")]
        host, card = (f"{float(end) - float(begin):.1f} us" if begin else "not there" for begin, end in spans)
        print(f"{row['message']}: on the host {host}, on the card {card}")


with tempfile.TemporaryDirectory() as place:
    main(place)
