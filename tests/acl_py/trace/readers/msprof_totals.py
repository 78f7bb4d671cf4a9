"""Prints what msprof-analyze finds in the folder of a device, in milliseconds: `python msprof_totals.py FOLDER`."""

import json
import sys

from msprof_analyze.compare_tools.compare_interface.comparison_interface import ComparisonInterface
from msprof_analyze.prof_common.constant import Constant

print(json.dumps(ComparisonInterface(sys.argv[1]).disaggregate_perf(Constant.OVERALL_COMPARE)["overall"]))
