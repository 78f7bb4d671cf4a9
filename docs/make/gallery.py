"""The gallery: each sample with what it shows, and a picture of its run.

Sphinx calls `write` before it reads its sources. Each sample runs in a process of its own, as `python gallery.py SAMPLE
PICTURE`, which draws its simulation with the most operations.
"""

import ast
import re
import runpy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache
from io import StringIO
from os import cpu_count
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SAMPLES = ROOT / "samples"
TITLES = {
    "": "The course",
    "attention": "Attention",
    "moe": "Mixture of experts",
    "server": "A server",
    "flash": "FlashAttention",
    "aicore": "Kernels on AI cores",
    "acl": "Scripts of acl",
}
SHOWN = 40  # operations that a picture shows; of longer runs the first ones
HEAD = """# Gallery

Every sample, what it shows, and the timeline of its run. Where a sample runs several simulations, the picture has the
one with the most operations; of a long run it has the first 40. Hatched boxes are copies, dark ones kernels, and the
top row is the host.
"""


def write(pages: Path) -> None:
    """Write gallery.md and the pictures into *pages*."""
    files = (path for folder in TITLES for path in sorted((SAMPLES / folder).glob("*.py")))
    samples = [path for path in files if path.with_suffix(".out").exists()]
    pictures = pages / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(cpu_count()) as pool:
        drawn = list(pool.map(_picture, samples, [pictures] * len(samples)))
    lines = [HEAD]
    for folder, title in TITLES.items():
        lines.append(f"## {title}\n")
        for sample, picture in zip(samples, drawn, strict=True):
            if sample.parent == SAMPLES / folder:
                lines += _entry(sample, picture, pages)
    (pages / "gallery.md").write_text("\n".join(lines), encoding="utf-8")


def _picture(sample: Path, pictures: Path) -> Path | None:
    """Draw the run of *sample*, unless the picture is newer; return None if it has no operations."""
    picture = pictures / f"{sample.relative_to(SAMPLES).with_suffix('').as_posix().replace('/', '-')}.svg"
    if not _is_fresh(picture, sample):
        command = [sys.executable, __file__, str(sample), str(picture)]
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)  # what objects print when they end
    return picture if picture.stat().st_size else None


@cache
def _code() -> float:
    """Return when the newest file of the packages was written."""
    files = (path for package in ("acl_py", "device_model") for path in (ROOT / package).rglob("*.*"))
    return max(path.stat().st_mtime for path in files if "__pycache__" not in path.parts)


def _is_fresh(made: Path, source: Path) -> bool:
    """Return whether *made* is there, and newer than its *source* and the packages."""
    return made.exists() and made.stat().st_mtime > max(source.stat().st_mtime, _code())


def _entry(sample: Path, picture: Path | None, pages: Path) -> list[str]:
    text = re.sub(
        r"\s+", " ", (ast.get_docstring(ast.parse(sample.read_text(encoding="utf-8"))) or "").split("\n\n")[0]
    )
    shows = text.removeprefix("Shows: ")
    name = sample.relative_to(SAMPLES).with_suffix("").as_posix()
    source = f"../../{sample.relative_to(ROOT).as_posix()}"
    output = source.removesuffix("py") + "out"
    lines = [f"### {name}\n", f"{shows[0].upper()}{shows[1:]} Its [source]({source}) and its [output]({output}).", ""]
    if picture is not None:
        lines += [f"![The timeline of {name}: {shows}]({picture.relative_to(pages)})", ""]
    return lines


def draw(sample: Path, picture: Path) -> None:
    """Run *sample*, and draw its longest simulation; the file stays empty if nothing ran on a device."""
    import matplotlib as mpl

    from acl_py.compat import acl
    from acl_py.sanitizer.watch import watching
    from acl_py.trace.views.figure import draw as figure_of

    mpl.use("agg")
    if sample.parent.name == "acl":
        acl.install()
    sys.path.insert(0, str(sample.parent))
    sys.argv = [str(sample)]
    with watching(frozenset(), keeps_traces=True) as watch, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        runpy.run_path(str(sample), run_name="__main__")
    timelines = [trace.timeline() for trace in watch.traces or ()]
    longest = max(timelines, key=lambda timeline: len(timeline.ops), default=None)
    if longest is None or not longest.ops:
        picture.touch()
        return
    ops = longest.ops[:SHOWN]
    calls = [call for call in longest.calls if call.enter_ns < max(op.end_ns for op in ops)]
    figure_of({sample.stem: replace(longest, ops=ops, calls=calls)}).savefig(picture, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
