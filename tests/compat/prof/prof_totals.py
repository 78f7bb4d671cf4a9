"""Prints what msprof-analyze's readers find in the folder of a profile: `python prof_totals.py FOLDER`.

They are the readers of its adviser for PROF_*/mindstudio_profiler_output.
"""

import json
import sys

from msprof_analyze.advisor.dataset.profiling.profiling_dataset import ProfilingDataset

found = ProfilingDataset(sys.argv[1], {}, cann_version="8.0.0", profiling_type="msprof")
tasks = [task for task in found.msprof.tasks if task is not None and "Task Type" in task.args]
print(json.dumps({
    "kernels": [[op.op_name, op.task_type, float(op.task_duration)] for op in found.op_summary.op_list],
    "total": found.op_summary.get_total_task_duration(),
    "tasks": sorted([task.name, float(task.start_time), task.dur] for task in tasks),
    "processes": sorted(found.msprof.process_pid),
}))  # fmt: skip
