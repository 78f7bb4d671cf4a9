"""What `import hccl.manage` finds: see `api`."""
