"""Fault rules for a simulation: `with sim.fault(faults.fail(call="Malloc", nth=3)): ...`.

Each function here makes one rule. A rule looks at calls or at operations, as these arguments say:

    call                  the name of a verb, as "Malloc"; wildcards are allowed, as in "Malloc*"
    op                    a kind of operation: "h2d", "d2h", "d2d", "p2p", "collective", "fill", "prefetch_h2d",
                          "prefetch_d2h", "kernel" or "host_function"; wildcards are allowed
    name                  only with op: the name of a kernel or host function
    stream                only with op: the name of a stream, as "stream 1"
    nth                   of all that match, the rule strikes only this one: 3 is the third
    every                 it strikes each third for 3
    chance                it strikes each with this probability, drawn from the simulation's random generator
    since_us, until_us    it strikes only between these simulated times, in microseconds

A rule without the last five strikes whenever it matches. If several rules would strike, the first one does.
"""

from acl_py.faults.checks import FaultError as FaultError
from acl_py.faults.force import Fault as Fault
from acl_py.faults.force import Guard as Guard
from acl_py.faults.force import Rule as Rule
from acl_py.faults.rules import MAKERS as MAKERS
from acl_py.faults.rules import corrupt as corrupt
from acl_py.faults.rules import delay as delay
from acl_py.faults.rules import ecc_error as ecc_error
from acl_py.faults.rules import fail as fail
from acl_py.faults.rules import hang as hang
from acl_py.faults.rules import lose_device as lose_device
from acl_py.faults.rules import out_of_memory as out_of_memory
from acl_py.faults.rules import slow as slow
from acl_py.faults.rules import slow_link as slow_link
from acl_py.faults.texts import listing as listing
from acl_py.faults.texts import parse as parse
