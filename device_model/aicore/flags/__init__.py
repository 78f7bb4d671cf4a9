"""Order inside a launch: flags, barriers, flags between cores, queues of buffers, pipelines of stages.

Imports core, and no other room of aicore.
"""
