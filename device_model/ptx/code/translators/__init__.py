"""Translators, by subject: importing this room fills the table of instructions."""

from device_model.ptx.code.translators import asynchronous as asynchronous
from device_model.ptx.code.translators import atomics as atomics
from device_model.ptx.code.translators import builtins as builtins
from device_model.ptx.code.translators import conversions as conversions
from device_model.ptx.code.translators import floats as floats
from device_model.ptx.code.translators import integers as integers
from device_model.ptx.code.translators import matrices as matrices
from device_model.ptx.code.translators import memory as memory
from device_model.ptx.code.translators import moves as moves
from device_model.ptx.code.translators import video as video
from device_model.ptx.code.translators import warps as warps
