"""What `import ais_bench` finds where `import acl` finds the simulated module: the vendor's tool for model files."""

from acl_py.compat.acl.processes import take_over

take_over()  # in a process that a script has started, the options are those of the script's run
