"""Many runs: a function at many points at the same time. No answer depends on how many workers there are.

crew    where the points run, and in which order the answers come
batches several points in a task of Dask
pools   pools of processes, which end with the process that made them
"""
