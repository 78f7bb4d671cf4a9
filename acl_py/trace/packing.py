"""The packed rows of a trace: their forms, and what a number in a row may mean besides an index."""

from struct import Struct

OP = Struct("<IIIiiqqqqqqqqBi")  # the fields of reasons.Row
CALL = Struct("<IIqq")  # numbers of values and caller; enter, exit
STEP = Struct("<IIqqiq")  # numbers of values and caller; enter, exit; the record that a wait waits for; the serial
# number of the operation with whose end it is over, or NO_OP if it was over at once, or LATER
SLEEP = Struct("<Iqqi")  # number of the caller; from, to; the operation whose end woke it
# In place of an operation: none; one that ended at that instant; it is known later, and stored by the row of the step.
NO_OP, ANY_OP, LATER = -1, -2, -3
