"""The vendor's `ais_bench.infer.interface`: sessions that execute model files with arrays."""

from acl_py.compat.acl.inference.interface import InferSession as InferSession
from acl_py.compat.acl.inference.interface import MemorySummary as MemorySummary
from acl_py.compat.acl.inference.interface import MultiDeviceSession as MultiDeviceSession
