"""`acl-py run` with programs of verbs: what its options mean for their simulations, and what it tells of them."""

from textwrap import dedent

import pytest
from typer.main import get_command

from acl_py.cli import app
from acl_py.tools import scripts
from tests import forks
from tests.acl_py.pages import data_of

PROGRAM = """\
    import acl_py as acl

    async def main():
        stream = await acl.CreateStream()
        buffer, pinned = await acl.Malloc(4096), await acl.MallocHost(4096)
        await acl.MemcpyAsync(buffer, 4096, pinned, 4096, acl.MemcpyKind.HOST_TO_DEVICE, stream)
        await acl.SynchronizeStream(stream)

    sim = acl.run(main, device="h200"{more})
    """
SAYS = (
    "import acl_py.running as s\nbuild = s.build\ns.build = lambda o: print(o.device, o.rules, o.overlay) or build(o)\n"
)


def run(folder, text, *options, warnings="error::RuntimeWarning"):
    (folder / "program.py").write_text(dedent(text))
    return forks.run("-W", warnings, "-m", "acl_py", "run", *options, "program.py", cwd=folder)


@pytest.mark.parametrize(
    ("options", "ran_on"),
    [
        ((), "h200 None None"),
        (("--device", "ascend310p3"), "ascend310p3 None None"),
        (("--rules", "cuda_per_thread"), "h200 cuda_per_thread None"),
        (("--device", "h200", "--overlay", "torch"), "h200 None torch"),
    ],
)
def test_the_command_line_names_the_device_of_a_program_of_verbs(tmp_path, options, ran_on):
    """As ACL_PY_DEVICE does: whatever the program says."""
    done = run(tmp_path, SAYS + dedent(PROGRAM.format(more="")), *options)
    assert (done.returncode, done.stdout.strip()) == (0, ran_on), done.stderr


def test_what_the_project_says_is_for_programs_that_say_nothing(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.acl_py]\ndevice = "ascend310p3"\n')
    done = run(tmp_path, SAYS + dedent(PROGRAM.format(more="")))
    assert done.stdout.strip() == "h200 None None"


@pytest.mark.parametrize("option", ["--report", "--trace", "--findings"])
def test_no_option_writes_over_a_program(tmp_path, option):
    (tmp_path / "victim.py").write_text("precious = 1\n")
    done = run(tmp_path, PROGRAM.format(more=""), "--sanitize", option, "victim.py")
    assert done.returncode == 2
    assert "victim.py is the file to write, and looks like a program" in " ".join(done.stderr.replace("│", "").split())
    assert (tmp_path / "victim.py").read_text() == "precious = 1\n"


def test_a_page_is_not_written_under_the_name_of_another_kind_of_file(tmp_path):
    done = run(tmp_path, PROGRAM.format(more=""), "--report", "page.pdf")
    assert done.returncode == 2
    text = " ".join(done.stderr.replace("│", "").split())
    assert "page.pdf ends in .pdf, and the page is HTML: let the name end in .html" in text
    assert not (tmp_path / "page.pdf").exists()


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("", True),
        ("if __name__ == '__main__':\n        acl.run(main)", False),
        ("acl.open()", False),
        ("raise SystemExit(3)", False),  # a script that has failed says so itself
    ],
)
def test_a_script_that_only_defines_main_is_told_how_to_run_it(tmp_path, end, told):
    done = run(tmp_path, f"    import acl_py as acl\n\n    async def main():\n        pass\n\n    {end}\n")
    text = "acl-py: program.py has called nothing of acl_py: it defines main(), and nothing runs it. Write acl_py.run("
    assert done.stderr.startswith(text) == told, done.stderr


def test_the_page_of_a_run_has_what_the_sanitizer_has_found(tmp_path):
    racy = PROGRAM.replace("await acl.SynchronizeStream(stream)", "pinned.numpy()[0] = 1")
    done = run(tmp_path, racy.format(more=""), "--report", "page.html")
    assert "race: " in done.stderr
    assert "acl-py: the timeline is in page.html" in done.stderr
    [race] = [text for text in data_of((tmp_path / "page.html").read_text())["mistakes"] if text.startswith("race")]
    assert "program.py:6" in race
    assert "program.py:7" in race
    assert "\nfix: SynchronizeStream(stream 1) " in race


def test_a_verb_that_nobody_awaits_is_told_with_its_line(tmp_path):
    careless = PROGRAM.replace("await acl.MemcpyAsync", "acl.MemcpyAsync").format(more="")
    told = "acl-py: MemcpyAsync() at program.py:6 was not awaited, so it has done nothing: write `await` before it\n"
    codes = []
    for options in ((), ("--strict",), ("--sanitize",)):
        done = run(tmp_path, careless, *options, warnings="default::RuntimeWarning")
        assert told in done.stderr
        assert "RuntimeWarning" not in done.stderr
        codes.append(done.returncode)
    assert codes == [0, 4, 4]


def test_a_launch_that_nobody_awaits_is_told_with_the_line_of_the_program(tmp_path):
    launch = "acl.kernel(lambda x: None, cost=acl.Cost(us=1))[1](buffer)"
    careless = PROGRAM.replace("await acl.SynchronizeStream(stream)", launch).format(more="")
    done = run(tmp_path, careless, warnings="default::RuntimeWarning")
    assert "acl-py: LaunchKernel() at program.py:7 was not awaited" in done.stderr


def test_warnings_of_others_are_shown_as_python_shows_them(tmp_path):
    done = run(
        tmp_path,
        "import warnings\nasync def own(): pass\nown()\nwarnings.warn('mine', RuntimeWarning)\n",
        warnings="default::RuntimeWarning",
    )
    assert "RuntimeWarning: coroutine 'own' was never awaited" in done.stderr
    assert 'program.py", line 3, in <module>' in done.stderr
    assert "acl_py/" not in done.stderr.split("Coroutine created at")[1]
    assert "RuntimeWarning: mine" in done.stderr


def test_a_device_that_there_is_not_is_refused_before_the_program_runs(tmp_path):
    done = run(tmp_path, 'print("ran")', "--what-if", "device=H100")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean h200?" in " ".join(done.stderr.replace("│", "").split())


def test_a_program_of_verbs_has_the_summary_that_scripts_have(tmp_path):
    """That of its last simulation. If the sanitizer looks for leaks, its report has them."""
    program = """\
        import acl_py as acl

        async def main(nbytes):
            stream, buffer = await acl.CreateStream(name="fills"), await acl.Malloc(nbytes)
            await acl.MemsetAsync(buffer, nbytes, 0, nbytes, stream)
            await acl.SynchronizeStream(stream)

        acl.run(main, 64, device="tiny")
        acl.run(main, 4096, device="tiny")
        """
    summary = """\
acl-py: the last of 2 simulations: tiny, rules cuda: 9.1 us of simulated time
  cores of device 0: 1 operation, 4.1 us (45 % of the time), 4,096 bytes
  stream 'fills' of device 0: 1 operation, 4.1 us (45 % of the time), 4,096 bytes
  host: 4 calls, 6.1 us in 1 synchronisation
    SynchronizeStream() at program.py:6: once, 6.1 us
"""
    leak = "  leak: 1 allocation of device memory, 4.0 KiB, never freed, made at program.py:4\n"
    assert run(tmp_path, program).stderr == summary + leak
    assert run(tmp_path, program, "--sanitize").stderr.startswith(f"{summary}acl-py: the sanitizer found 2 findings")
    assert run(tmp_path, "import acl_py\n").stderr == ""


def test_a_program_that_has_printed_its_own_report_gets_no_summary(tmp_path):
    """Calls behind the report that queue nothing, such as frees, do not matter. Other work does, and an error."""
    program = """\
        import acl_py as acl

        async def main():
            stream, buffer = await acl.CreateStream(name="fills"), await acl.Malloc(64)
            await acl.MemsetAsync(buffer, 64, 0, 64, stream)
            await acl.SynchronizeStream(stream)
            print(acl.current_simulation().report())
            await acl.Free(buffer)
            {more}
            await acl.DestroyStream(stream)

        acl.run(main, device="tiny", {options})
        """
    for more, options, has_summary in (
        ("pass", "", False),
        ("await acl.MemsetAsync(await acl.Malloc(4), 4, 0, 4, stream)", "", True),
        ("1 / 0", "", True),
        ("pass", "trace=False", True),  # the host clock alone says whether something has happened
    ):
        done = run(tmp_path, program.format(more=more, options=options))
        assert done.stdout.startswith("tiny, rules cuda: 3.3 us of simulated time")
        assert ("of simulated time" in done.stderr) == has_summary


def test_a_program_of_verbs_that_hangs_ends_with_the_line_at_which_it_does(tmp_path):
    program = """\
        import asyncio
        import acl_py

        async def main():
            await asyncio.Future()

        acl_py.run(main)
        """
    done = run(tmp_path, program)
    assert done.returncode == 3
    assert "task 1: in main at program.py:5, for a bare future" in done.stderr
    assert "where the threads of the script are:\n  the main thread: program.py:7, in <module>\n" in done.stderr


def test_each_option_of_the_command_is_known_behind_a_script():
    command = get_command(app).commands["run"]
    assert {name for each in command.params for name in each.opts if name.startswith("--")} == scripts.OPTIONS


def test_an_option_behind_a_script_that_reads_no_arguments_is_told(tmp_path):
    program = """\
        import acl_py
        {more}

        async def main():
            await acl_py.CreateStream()

        acl_py.run(main)
        """
    (tmp_path / "program.py").write_text(dedent(program.format(more="")))
    (tmp_path / "reader.py").write_text(dedent(program.format(more="import sys; print(sys.argv[1:])")))
    told = "acl-py: --report=page.html stands behind program.py, so it is an argument of the script, which reads none"
    for words in (["--report=page.html"], ["--size", "3", "--report=page.html"]):
        assert told in forks.run("-m", "acl_py", "run", "program.py", *words, cwd=tmp_path).stderr
    assert "stands behind" not in forks.run("-m", "acl_py", "run", "program.py", "--size", cwd=tmp_path).stderr
    done = forks.run("-m", "acl_py", "run", "reader.py", "--report=page.html", cwd=tmp_path)
    assert (done.stdout, "stands behind" in done.stderr) == ("['--report=page.html']\n", False)


@pytest.mark.parametrize(
    ("first", "last", "places"),
    [
        ("pass", "pass", ["before the loop of program.py:7", "behind the loop of program.py:8"]),
        (
            "stream = await acl.CreateStream()",
            "await acl.DestroyStream(stream)",
            ["behind program.py:4", "before program.py:10"],
        ),
    ],
)
def test_an_explanation_moves_calls_out_of_their_loop(tmp_path, first, last, places):
    program = f"""\
        import acl_py as acl

        async def main():
            {first}
            for _ in range(4):
                buffer = await acl.Malloc(64)
                await acl.MemsetAsync(buffer, 64, 0, 64)
                await acl.SynchronizeDevice()
                await acl.Free(buffer)
            {last}

        acl.run(main, device="h200")
        """
    lines = [line.strip() for line in run(tmp_path, program, "--explain").stderr.splitlines()]
    assert f"+ {places[0]}: buffer = await acl.Malloc(64)" in lines
    assert f"+ {places[1]}: await acl.Free(buffer)" in lines
