"""What numbers a profile may hold: the type of a field says from where to where."""

from typing import Annotated

from device_model.scheduler import END_NS

MOST = END_NS  # of anything: nanoseconds, bytes, operations per second
Count = Annotated[int, 1, MOST]  # things of which there must be one
Few = Annotated[int, 1, 4096]  # things that the model makes one by one: devices, queues, cores
