"""The range of numbers in a profile: the type of a field says its least and its most."""

from typing import Annotated

from device_model.scheduler import END_NS

MOST = END_NS  # of anything: nanoseconds, bytes, operations per second
Count = Annotated[int, 1, MOST]  # there must be at least one
Few = Annotated[int, 1, 4096]  # the model makes an object for each: devices, queues, cores
