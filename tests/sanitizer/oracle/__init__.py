"""An independent oracle for the sanitizer: what the documents promise about the order of a stream program.

It was written from the documents of CUDA and ACL and shares no code with `acl_py.sanitizer`. `reading` says which call
puts what into which stream. Two judges of the order follow: `promises` computes it as reachability over a graph, and
`schedules` tries every legal schedule of a small program. `verdicts` lists the accesses that no promise orders.
`programs` makes random programs, and `baselines` are two simpler detectors to compare with.

`python -m tests.sanitizer.oracle N` prints how many of N random programs each detector gets wrong.
"""
