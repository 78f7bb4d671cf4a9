"""From the options of a run to a runtime on a card."""

from typing import TYPE_CHECKING

from acl_py.card.bridge import CardBridge
from acl_py.options import Options

if TYPE_CHECKING:
    from acl_py.card.runtime import CardRuntime


def build(options: Options) -> "CardRuntime":
    """Return a runtime on the card that *options* name.

    Raises:
        ImportError: The vendor's package is not installed.
        AclError: There is no driver, or no such card.
        ValueError: The rules are not the vendor's.
    """
    card = options.card
    assert card is not None, f"{options.device!r} names no card"
    runtime: CardRuntime
    # Imported here: a run needs what one vendor has.
    if card.vendor == "npu":
        from acl_py.card.npu.opening import build as on_npu

        runtime = on_npu(options, card)
    else:
        from acl_py.card.cuda.opening import build as on_cuda

        runtime = on_cuda(options, card)
    runtime.bridge = CardBridge(runtime)
    return runtime
