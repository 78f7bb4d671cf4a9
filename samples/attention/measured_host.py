"""The host of the H200 on which torch ran this attention (tests/conformance/data/attention.json).

It copies pageable memory itself, and what its caches hold it copies twice as fast as the rest. The measured programs go
through the same arrays again and again, so the caches hold a share of them.
"""

from device_model import overlay, profile
from device_model.profile import DeviceProfile

MB = 1 << 20
CACHES = 37 * MB
UNCACHED = 2.07  # times what it takes from the caches; both are fitted to the first and the third measured job


def h200(pageable: int) -> DeviceProfile:
    """Return the card with a host that goes through *pageable* bytes of ordinary memory."""
    card = profile.load("h200")
    missed = max(0.0, 1 - CACHES / pageable)
    factor = 1 + (UNCACHED - 1) * missed
    source = f'"measured: attention, the profile\'s times {factor:.2f}"'
    rows = (
        f"{name} = {{ value = [[0, 0], [{MB}, {round(curve[MB] * factor)}]], source = {source} }}"
        for name, curve in (("stage", card.copies.stage), ("unstage", card.copies.unstage))
    )
    return overlay.lay("\n".join(["[copies]", *rows]), "the measured host", card)
