"""The package greenlet: in greenlets blocks of AI cores, and roles of thread blocks, wait for one another."""

try:
    from greenlet import getcurrent as getcurrent
    from greenlet import greenlet as greenlet
except ImportError as error:
    raise ImportError(
        "kernels of AI cores, roles of thread blocks, and ranks with hosts of their own, need the package greenlet, "
        "which cannot be imported: install it with `pip install greenlet`; Python in a browser does not have it"
    ) from error
