"""Prints how much of communication overlaps computation to Holistic Trace Analysis: `python hta_ranks.py FOLDER RANKS`.

The JSON has the percentage of each rank. It runs in a process of its own: see hta_totals.py.
"""

import json
import os
import sys

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"

from hta.trace_analysis import TraceAnalysis

folder, ranks = sys.argv[1], int(sys.argv[2])
files = {rank: os.path.join(folder, f"rank_{rank}.json") for rank in range(ranks)}
overlaps = TraceAnalysis(trace_files=files, trace_dir=folder).get_comm_comp_overlap(visualize=False)
print(json.dumps({int(row["rank"]): float(row["comp_comm_overlap_pctg"]) for _, row in overlaps.iterrows()}))
