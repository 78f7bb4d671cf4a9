"""The session of the process, if it has begun, and the options of the next one.

No module of the runtime is imported here. So what surrounds a script can ask, and a script that makes no call has none.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acl_py.compat.acl.face.session import OwnSession

own: "OwnSession | None" = None
asked: dict[str, Any] = {}  # the options of the first session, if they came before session.py was imported
are_failures_told_at_once = False  # True in a process that prints no summary


def current_session() -> "OwnSession | None":
    """Return the session of the process, or None if it has not begun."""
    return own
