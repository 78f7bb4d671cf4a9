"""Order inside a launch: flags, barriers, flags between cores, queues of buffers, pipelines of stages.

May import core, and no other room of aicore.
"""
