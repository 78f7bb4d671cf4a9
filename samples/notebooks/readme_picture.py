"""The picture in the README, from `acl-py demo`: `python samples/notebooks/readme_picture.py` draws it again.

It holds its own chart in text: for those who cannot see it, and for the test that compares it with what happens now.
"""

import asyncio
from pathlib import Path

import numpy as np

from acl_py.tools import demo
from acl_py.trace import chart
from acl_py.trace.figure import draw

PICTURE = Path(__file__).parent.parent.parent / "docs" / "timeline.png"
VERSIONS = demo.VERSIONS[-2:]


def outcomes() -> dict[str, demo.Outcome]:
    """Return the outcomes of the two versions of the picture, by their titles."""
    images = np.ones((demo.CHUNKS * demo.IMAGES, demo.SIZE), np.float32)  # times do not depend on what is in them
    weights = np.ones((demo.SIZE, demo.SIZE), np.float32)
    done = [asyncio.run(demo.do(version, images, weights)) for version in VERSIONS]
    return {
        f"{version.title}: {outcome.total_ns / 1000:,.0f} us": outcome
        for version, outcome in zip(VERSIONS, done, strict=True)
    }


def in_words(found: dict[str, demo.Outcome]) -> str:
    """Return the same picture as text."""
    return "\n".join(
        f"{title}\n{chart.lanes(outcome.sim.trace, since_ns=outcome.start_ns)}" for title, outcome in found.items()
    )


if __name__ == "__main__":
    found = outcomes()
    figure = draw(
        {title: outcome.sim.trace.timeline() for title, outcome in found.items()},
        rows="both",
        since_ns={title: outcome.start_ns for title, outcome in found.items()},
    )
    figure.savefig(PICTURE, dpi=160, metadata={"Description": in_words(found), "Software": None})
