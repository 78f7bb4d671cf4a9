"""Graphs: work that is described once and launched many times, as CUDA has it.

From the top down; each module imports only from those below it:

    executable      Executable: a graph made ready for a device, and its launches
    streaks         kernels of a launch, one behind the other, that run without an operation for each
    plan            Plan: the nodes of a graph in the form in which a launch runs them
    makeup          Makeup: what the nodes of a plan are, by how many
    capture         Capture: streams that take work as nodes of a graph instead of running it
    groups          TaskGroup, Update: kernels of a graph that get other arguments
    graph           Graph, Node: what is to be done, and what has to be over before it
    dependencies    which nodes each node depends on: in chains, and as pictures

A graph is made node by node, or captured: between BeginCapture and EndCapture a stream *takes* work and runs nothing.
Its *frontier* are the nodes that the next node depends on. A record in a captured stream notes the frontier in the
event, and a wait for that event adds it to the frontier of another stream, which is drawn into the capture by that.

    A: launch a, record e             frontier of A: a
    B: wait e, launch b, record f     frontier of B: a, then b, which depends on a
    A: wait f, launch c               frontier of A: a and b, then c, which depends on both
"""
