"""Translators, by subject: importing this room fills the table of instructions."""

from device_model.ptx.code.translators import arithmetic as arithmetic
from device_model.ptx.code.translators import atomics as atomics
from device_model.ptx.code.translators import builtins as builtins
from device_model.ptx.code.translators import memory as memory
from device_model.ptx.code.translators import moves as moves
from device_model.ptx.code.translators import warps as warps
