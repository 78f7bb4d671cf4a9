"""Messages in the words of the module: where the core names a verb, scripts know a function."""

import re
from functools import cache

from acl_py.signatures import read

_VERB = re.compile(r"\b([A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)*)\(")  # as in "SetDevice()"
_OTHERWISE = {  # verbs whose function has another name
    "GetCurrentContext": "acl.rt.get_context",
    "GetEventTimestamp": "acl.rt.event_get_timestamp",
    "ResetNotifies": "acl.rt.notify_batch_reset",
    "SetCurrentContext": "acl.rt.set_context",
    "SetOpWaitTimeOut": "acl.rt.set_op_wait_timeout",
}


def reword(text: str) -> str:
    """Return *text* with functions in the place of verbs: "SetDevice()" becomes "acl.rt.set_device()"."""
    return _VERB.sub(lambda match: _functions().get(match[1], match[1]) + "(", text)


def freeing(maker: str) -> str | None:
    """Return the function of the module acl that frees what the function *maker* allocates; None if it is none of those
    that do so: "acl.media.dvpp_free" for "acl.media.dvpp_malloc_with_cfg".
    """
    stem, malloc, rest = maker.partition("malloc")
    return next((each for each in (f"{stem}free{rest}", f"{stem}free") if malloc and each in _full_names()), None)


@cache
def _full_names() -> frozenset[str]:
    return frozenset(each.full_name for each in read())


@cache
def _functions() -> dict[str, str]:
    """Return the functions by the verb that they stand for."""
    named = [each for each in read() if each.module in ("acl", "acl.rt")]
    verbs = {"".join(part[0].upper() + part[1:] for part in each.name.split("_")): each.full_name for each in named}
    return verbs | _OTHERWISE
