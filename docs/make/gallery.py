"""The gallery: each sample with what it shows, and a picture of its run.

Sphinx calls `write` before it reads its sources. Each sample runs in a process of its own, which is forked from one
with all imports, and draws its simulation with the most operations.
"""

import ast
import re
import runpy
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache
from io import StringIO
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from os import O_WRONLY, chdir, cpu_count, devnull, dup2
from os import open as open_file
from pathlib import Path

from acl_py.cli.common import progress

ROOT = Path(__file__).parent.parent.parent
SAMPLES = ROOT / "samples"
TITLES = {
    "": "The course",
    "attention": "Attention",
    "moe": "Mixture of experts",
    "server": "A server",
    "flash": "FlashAttention",
    "aicore": "Kernels on AI cores",
    "parallel": "Several devices",
    "sweeps": "Many runs",
    "ptx": "Kernels in PTX",
    "acl": "Scripts of acl",
}
SHOWN = 40  # operations that a picture shows; of longer runs the first ones
HEAD = """# Gallery

Every sample, what it shows, and the timeline of its run. Where a sample runs several simulations, the picture has the
one with the most operations; of a long run it has the first 40. Hatched boxes are copies, dark ones kernels, and the
top row is the host.
"""


def write(pages: Path, *, draws: bool = True) -> None:
    """Write gallery.md and the pictures into *pages*; without *draws* only pictures that are there are shown."""
    files = (path for folder in TITLES for path in sorted((SAMPLES / folder).glob("*.py")))
    samples = [path for path in files if path.with_suffix(".out").exists()]
    pictures = pages / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    targets = [pictures / f"{_name(sample).replace('/', '-')}.svg" for sample in samples]
    if draws:
        _draw_all([pair for pair in zip(samples, targets, strict=True) if not _is_fresh(*reversed(pair))])
    lines = [HEAD]
    for folder, title in TITLES.items():
        lines.append(f"## {title}\n")
        for sample, picture in zip(samples, targets, strict=True):
            if sample.parent == SAMPLES / folder:
                lines += _entry(sample, picture, pages)
    (pages / "gallery.md").write_text("\n".join(lines), encoding="utf-8")


def _name(sample: Path) -> str:
    return sample.relative_to(SAMPLES).with_suffix("").as_posix()


def _import() -> None:
    """Import what the processes need, once for all of them."""
    import matplotlib as mpl

    import acl_py.asc
    import acl_py.compat.acl
    import acl_py.cta
    import acl_py.ptx
    import acl_py.sanitizer.watch
    import acl_py.trace.views.figure  # noqa: F401

    mpl.use("agg")


def _draw_all(pairs: list[tuple[Path, Path]]) -> None:
    """Draw each sample in a process of its own, as many at a time as there are cores; samples may start others."""
    _import()
    running: list[ForkProcess] = []
    with progress("pictures", len(pairs)) as advance:
        for sample, picture in pairs:
            if len(running) == cpu_count():
                _wait_for_one(running)
                advance()
            process = ForkProcess(target=_draw_in_silence, args=(sample, picture), name=str(sample))
            process.start()
            running.append(process)
        while running:
            _wait_for_one(running)
            advance()


def _wait_for_one(running: list[ForkProcess]) -> None:
    """Wait until a process has ended, and take it out of *running*."""
    ended = wait([process.sentinel for process in running])
    process = next(process for process in running if process.sentinel in ended)
    process.join()
    running.remove(process)
    if process.exitcode:
        raise RuntimeError(f"{process.name} cannot be drawn: its process has ended with {process.exitcode}")


def _draw_in_silence(sample: Path, picture: Path) -> None:
    """Draw *sample*, and drop what objects print when they end."""
    dup2(open_file(devnull, O_WRONLY), 1)
    chdir(ROOT)
    draw(sample, picture)


@cache
def _code() -> float:
    """Return when the newest file of the packages was written."""
    files = (path for package in ("acl_py", "device_model") for path in (ROOT / package).rglob("*.*"))
    return max(path.stat().st_mtime for path in files if "__pycache__" not in path.parts)


def _is_fresh(made: Path, source: Path) -> bool:
    """Return whether *made* is there, and newer than its *source* and the packages."""
    return made.exists() and made.stat().st_mtime > max(source.stat().st_mtime, _code())


def _entry(sample: Path, picture: Path, pages: Path) -> list[str]:
    text = re.sub(
        r"\s+", " ", (ast.get_docstring(ast.parse(sample.read_text(encoding="utf-8"))) or "").split("\n\n")[0]
    )
    shows = text.removeprefix("Shows: ")
    name = _name(sample)
    source = f"../../{sample.relative_to(ROOT).as_posix()}"
    output = source.removesuffix("py") + "out"
    lines = [f"### {name}\n", f"{shows[0].upper()}{shows[1:]} Its [source]({source}) and its [output]({output}).", ""]
    if picture.exists() and picture.stat().st_size:
        lines += [f"![The timeline of {name}: {shows}]({picture.relative_to(pages)})", ""]
    return lines


def draw(sample: Path, picture: Path) -> None:
    """Run *sample*, and draw its longest simulation; the file stays empty if nothing ran on a device."""
    from acl_py.compat import acl
    from acl_py.sanitizer.watch import watching
    from acl_py.trace.views.figure import draw as figure_of

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
