"""What an asynchronous copy does with its kind under ACL's rules, for the native verbs and for the `acl` module."""

WAITS, REFUSED, UNSUPPORTED, FAULT = "waits", 107000, 207000, "fault"

# (from, to): what each of H2H, H2D, D2H, D2D, DEFAULT does.
TABLE = {
    ("pinned", "device"): ["queued"] * 5,
    ("device", "pinned"): ["queued"] * 5,
    ("device", "device"): ["queued"] * 5,
    ("pinned", "pinned"): [UNSUPPORTED] * 5,
    ("pageable", "device"): [REFUSED, WAITS, REFUSED, FAULT, WAITS],
    ("device", "pageable"): [REFUSED, REFUSED, WAITS, FAULT, WAITS],
    ("pinned", "pageable"): [UNSUPPORTED, WAITS, REFUSED, REFUSED, UNSUPPORTED],
    ("pageable", "pinned"): [UNSUPPORTED, REFUSED, WAITS, REFUSED, UNSUPPORTED],
    ("pageable", "pageable"): [UNSUPPORTED, WAITS, WAITS, FAULT, UNSUPPORTED],
}
KINDS = "H2H", "H2D", "D2H", "D2D", "DEFAULT"  # by number
ROWS = [(*ends, kind, effects[kind]) for ends, effects in TABLE.items() for kind in range(len(KINDS))]
NAMES = [f"{source}-to-{target}-{KINDS[kind]}" for source, target, kind, _ in ROWS]
