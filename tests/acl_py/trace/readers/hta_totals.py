"""Prints what Holistic Trace Analysis finds in a Kineto trace, as JSON: `python hta_totals.py TRACE`.

It runs in a process of its own, because its libraries give warnings. HTA rounds times to microseconds unless it is
asked not to.
"""

import json
import os
import sys

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"

from hta.trace_analysis import TraceAnalysis

analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir=os.path.dirname(sys.argv[1]))
breakdown = analysis.get_temporal_breakdown(visualize=False).iloc[0]
types, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=100)
launches = analysis.get_cuda_kernel_launch_stats(visualize=False)[0]
print(
    json.dumps(
        {
            "breakdown": {name: float(breakdown[f"{name}_time(us)"]) for name in ("idle", "compute", "kernel")},
            "types": {row["kernel_type"]: float(row["sum"]) for _, row in types.iterrows()},
            "kernels": {row["name"]: float(row["sum (us)"]) for _, row in kernels.iterrows()},
            "launches": [
                [int(row["correlation"]), float(row["gpu_duration"]), float(row["launch_delay"])]
                for _, row in launches.iterrows()
            ],
        }
    )
)
