"""The texts of the lines that a recording names: those of files that are there, and none that may be another line's."""

import runpy

import acl_py
from acl_py import asc
from acl_py.trace.rows.source import MOST


def source_of(main, **options):
    async def run():
        async with acl_py.simulate(device="tiny", **options) as sim:
            await main()
        return dict(sim.trace.timeline().source)

    return acl_py.run(run)


def program(folder, text, name="prog.py"):
    """The program of a file with this *text*."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"import acl_py\n\n\nasync def main():\n{text}", encoding="utf-8")
    return runpy.run_path(str(folder / name))["main"]


def test_each_line_that_is_named_has_its_text(tmp_path):
    text = """    stream = await acl_py.CreateStream()
    memory = await acl_py.Malloc(64)  # ü
    acl_py.mark("begun")
    await acl_py.MemsetAsync(
        memory, 64, 0, 64, stream)
    await acl_py.RecordEvent(await acl_py.CreateEvent(), stream)
    await acl_py.SynchronizeStream(stream)
"""
    named = source_of(program(tmp_path, text))
    lines = [line.strip() for line in text.splitlines()]
    assert named == {f"prog.py:{number}": lines[number - 5] for number in (5, 6, 7, 8, 10, 11)}


def test_lines_of_kernels_have_their_texts():
    @asc.kernel
    def adds(x: asc.In):
        pipe = asc.TPipe()
        queue = asc.TQue(asc.TPosition.VECIN, 1)
        pipe.InitBuffer(queue, 1, 512)
        local = queue.AllocTensor(asc.half)
        asc.Adds(local, local, 1, 256)
        queue.FreeTensor(local)

    async def main():
        async with acl_py.simulate(device="ascend910b1", instructions=10) as sim:
            x = await acl_py.Malloc(512)
            await acl_py.LaunchKernel(adds, 1, [acl_py.Array(x, "float16")])
            await acl_py.SynchronizeDevice()
            return sim.trace.timeline()

    timeline = acl_py.run(main)
    (row,) = [row for row in timeline.instructions if row.name == "Adds"]
    assert dict(timeline.source)[row.site] == "asc.Adds(local, local, 1, 256)"


def test_a_line_of_two_files_of_one_name_has_no_text(tmp_path):
    one = program(tmp_path / "one", "    await acl_py.Malloc(1)\n    await acl_py.Malloc(7)\n")
    two = program(tmp_path / "two", "    await acl_py.Malloc(2)\n    await acl_py.Malloc(7)\n")

    async def both():
        await one()
        await two()

    named = source_of(both)
    assert "prog.py:5" not in named
    assert named["prog.py:6"] == "await acl_py.Malloc(7)"


def test_code_that_is_in_no_file_has_no_text(tmp_path, monkeypatch):
    text = "import acl_py\nasync def main():\n    await acl_py.Malloc(1)\n"
    (tmp_path / "gone.py").write_text("# another\n" * 3, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)  # where linecache would look for it
    names = {}
    exec(compile(text, "gone.py", "exec"), names)
    assert "gone.py:3" not in source_of(names["main"])


def test_of_a_long_line_the_beginning_is_kept(tmp_path):
    long = f"await acl_py.Malloc(1)  # {'x' * 500}"
    named = source_of(program(tmp_path, f"    {long}\n"))
    assert named["prog.py:5"] == f"{long[: MOST - 1]}…"
