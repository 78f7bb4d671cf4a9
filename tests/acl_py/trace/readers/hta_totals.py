"""Prints what Holistic Trace Analysis finds in a Kineto trace, as JSON: `python hta_totals.py TRACE`.

`syncs` are the edges of its graph for the critical path that are synchronisations.

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
graph, _ = analysis.critical_path_analysis(rank=0, annotation="", instance_id=None)
names = analysis.t.symbol_table.get_sym_table()
rows = analysis.t.get_trace(0)["name"]
syncs = [edge for edge in graph.edges if graph.edges[edge]["object"].type.name == "SYNC_DEPENDENCY"]
launches = analysis.get_cuda_kernel_launch_stats(visualize=False)[0]
print(
    json.dumps(
        {
            "breakdown": {name: float(breakdown[f"{name}_time(us)"]) for name in ("idle", "compute", "kernel")},
            "types": {row["kernel_type"]: float(row["sum"]) for _, row in types.iterrows()},
            "kernels": {row["name"]: float(row["sum (us)"]) for _, row in kernels.iterrows()},
            "syncs": [[names[rows.loc[graph.node_list[node].ev_idx]] for node in edge] for edge in syncs],
            "launches": [
                [int(row["correlation"]), float(row["gpu_duration"]), float(row["launch_delay"])]
                for _, row in launches.iterrows()
            ],
        }
    )
)
