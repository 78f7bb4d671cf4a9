"""What `import hccl` finds where `import acl` finds the simulated module: the management of ranks."""
