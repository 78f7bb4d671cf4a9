"""Dependencies: which nodes of a graph each node depends on, divided into chains, and drawn.

Nodes are numbers here: each is named by its place, and depends on nodes of smaller places. A chain is a sequence of
nodes, each of which depends on the one before. A node continues the chain of one that it depends on, if no other node
does.
"""

from collections.abc import Sequence

Befores = Sequence[Sequence[int]]  # for each node: the nodes that it depends on


def chains(befores: Befores) -> list[int]:
    """Return the chain of each node, by number."""
    ends: dict[int, int] = {}  # the chain of each node that is the last one of its chain so far
    found: list[int] = []
    count = 0
    for place, before in enumerate(befores):
        previous = next((each for each in before if each in ends), None)
        if previous is None:
            chain, count = count, count + 1
        else:
            chain = ends.pop(previous)
        ends[place] = chain
        found.append(chain)
    return found


def picture(befores: Befores, labels: Sequence[str]) -> str:
    """Draw one line for each node: its label, and lines to the nodes that it depends on.

    A node has a column until the last node that depends on it, which takes its place. Other nodes take a free column.
    """
    until = list(range(len(befores)))  # the last node that depends on each node
    for place, before in enumerate(befores):
        for each in before:
            until[each] = place
    shown: list[int | None] = []  # the node of each column, None for a free one
    rows: list[list[str]] = []
    for place, before in enumerate(befores):
        ending = [shown.index(each) for each in before if until[each] == place]
        own = min(ending) if ending else shown.index(None) if None in shown else len(shown)
        if own == len(shown):
            shown.append(None)
        row = list(" ".join(" " if node is None else "│" for node in shown))
        for each in before:
            column = shown.index(each)
            if column != own:
                _connect(row, 2 * column, 2 * own, goes_on=column not in ending)
        row[2 * own] = "●"
        rows.append(row)
        for column in ending:
            shown[column] = None
        shown[own] = place if until[place] > place else None
    width = max(map(len, rows), default=0)
    return "\n".join(f"{''.join(row):{width}}  {label}" for row, label in zip(rows, labels, strict=True))


def _connect(row: list[str], start: int, stop: int, *, goes_on: bool) -> None:
    """Draw a line from column *start*, which *goes_on* below or not, to column *stop*."""
    right = start < stop
    row[start] = ("├" if right else "┤") if goes_on else ("╰" if right else "╯")
    for column in range(min(start, stop) + 1, max(start, stop)):
        row[column] = {" ": "─", "│": "┼", "╯": "┴", "╰": "┴"}.get(row[column], row[column])


def dot(name: str, befores: Befores, labels: Sequence[str]) -> str:
    """Return the graph in the language of Graphviz."""
    quoted = [label.replace("\\", "\\\\").replace('"', '\\"') for label in labels]
    nodes = [f'  {place} [label="{label}"];' for place, label in enumerate(quoted)]
    edges = [f"  {each} -> {place};" for place, before in enumerate(befores) for each in before]
    return "\n".join([f'digraph "{name}" {{', *nodes, *edges, "}"])
