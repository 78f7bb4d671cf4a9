"""The packed rows of a trace: their forms, and what a number in a row may mean besides an index."""

from struct import Struct

OP = Struct("<IIiiqqqqqqqqBi")  # the fields of reasons.Row
CALL = Struct("<IIqq")  # numbers of values and caller; enter, exit
STEP = Struct("<IIqqi")  # numbers of values and caller; enter, exit; the step with the record that a wait waits for
SLEEP = Struct("<Iqqi")  # number of the caller; from, to; the operation whose end woke it
NO_OP, ANY_OP = -1, -2  # in place of an operation: none; one that ended at that instant
