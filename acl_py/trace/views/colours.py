"""The colours of kinds of work, which pages and figures share. The text in all of them but calls and waits is white."""

COLOURS = {
    "h2d": "#2463c9",
    "kernel": "#1f7a44",
    "d2h": "#8e3bb0",
    "d2d": "#0e7485",
    "h2h": "#7a4a1f",
    "p2p": "#0b6a8f",
    "collective": "#a3443f",
    "prefetch_h2d": "#4a54c4",
    "prefetch_d2h": "#6f4ab8",
    "fill": "#52697a",
    "host_function": "#8a6100",
    "graph": "#3c6e57",
    "call": "#e2d6b5",
    "held": "#f4f1e8",
    "held-line": "#d0c7ae",
}
