"""What the process of each run begins with: all that a script may import from here, imported once for all runs."""

import gc

import acl_py.public  # noqa: F401 - scripts import it
from acl_py.compat.acl.face.making import make, make_all
from acl_py.explore import scripts  # noqa: F401 - the processes run it

make_all(make().values())
gc.freeze()  # the processes share these objects as long as no collection touches them
