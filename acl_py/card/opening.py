"""From the options of a run to a runtime on a card."""

from acl_py.card.bridge import CardBridge
from acl_py.card.runtime import CardRuntime
from acl_py.options import Options


def build(options: Options) -> CardRuntime:
    """Return a runtime on the card that *options* name.

    Raises:
        ImportError: The vendor's package is not installed.
        AclError: There is no driver, or no such card.
        ValueError: The rules are not the vendor's.
    """
    from acl_py.card.cuda.opening import build as on_card

    runtime = on_card(options)
    runtime.bridge = CardBridge(runtime)
    return runtime
