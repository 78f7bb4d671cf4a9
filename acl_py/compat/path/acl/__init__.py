"""What `import acl` finds in a process that a script of `acl-py run` has started."""

from acl_py.compat.acl.processes import take_over

take_over()  # puts the simulated module in the place of this one
