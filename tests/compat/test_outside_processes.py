"""Scripts that start processes: each finds `acl`, with the options of `acl-py run`, on cards of its own."""

import json
import os
import site
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from acl_py.compat.acl.face.making import make
from acl_py.compat.acl.face.modules import IMPORTED
from tests import forks

POOL = """\
    import multiprocessing
    import sys
    import acl
    from acl.rt import get_device_count

    def work(device):
        rets = acl.init(), acl.rt.set_device(device)
        address, ret = acl.rt.malloc(64, 0)
        data = bytes([device]) * 64
        rets += ret, acl.rt.memcpy(address, 64, acl.util.bytes_to_ptr(data), 64, 1)
        out = bytes(64)
        rets += (acl.rt.memcpy(acl.util.bytes_to_ptr(out), 64, address, 64, 2),)
        rets += acl.rt.reset_device(device), acl.finalize()
        return device, set(rets), out == data, get_device_count()

    if __name__ == "__main__":
        with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
            print(pool.map(work, range(3)))
    """


@pytest.mark.one_in(2)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_with_a_card_for_each(run, method):
    done = run(POOL, method, options=("--devices", "3"))
    assert (done.returncode, done.stderr) == (0, "")
    assert eval(done.stdout) == [(device, {0}, True, (3, 0)) for device in range(3)]


@pytest.mark.slow
def test_another_script_finds_acl_its_models_and_its_operators(run, tmp_path):
    (tmp_path / "models").mkdir()
    sidecar = """\
        compute = "net:infer"
        cost_us = 5.0
        [[inputs]]
        name = "x"
        dtype = "float32"
        dims = [2]
        [[outputs]]
        name = "y"
        dtype = "float32"
        dims = [2]
        """
    (tmp_path / "models" / "net.om.toml").write_text(dedent(sidecar))
    (tmp_path / "models" / "net.py").write_text("def infer(x):\n    return x\n")
    (tmp_path / "mine.py").write_text("import os\nos.environ['WAS_RUN'] = str(os.getpid())\n")
    script = """\
        import subprocess
        import sys
        other = "import os, acl.mdl; print(acl.init(), acl.rt.set_device(0), acl.mdl.load_from_file('net.om')[1])"
        other += "; print(os.environ['WAS_RUN'] == str(os.getpid()), acl.get_soc_name())"
        subprocess.run([sys.executable, "-c", other], check=True, cwd="/")
        """
    options = ("--models", "models", "--register", "mine.py", "--device", "ascend910b4")
    done = run(script, options=options)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["0 0 0", "True Ascend910B4"]


def finding(**variables):
    """The environment of a process that finds `acl` by the path alone, without `acl-py run`."""
    path = (str(Path(make()["acl"].__file__).parents[1]), *(each for each in sys.path if each))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), **variables}


def run_python(code, **variables):
    """Run *code* without `acl-py run`."""
    return forks.run("-c", dedent(code), env=finding(**variables))


@pytest.mark.slow
def test_a_process_finds_acl_by_the_folder_in_which_its_file_is(tmp_path):
    code = """\
        import acl
        from acl.rt import get_device_count
        print(acl.__file__, acl.get_soc_name(), *get_device_count())
        acl.rt.free(3)
        """
    command = [sys.executable, "-W", "error", "-c", dedent(code)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, env=finding())
    assert done.stdout.split()[1:] == ["Ascend910B3", "8", "0"]
    assert done.stdout.startswith(make()["acl"].__file__)
    assert done.stderr.startswith("acl-py: failed: acl.rt.free() at <string>:4")
    (tmp_path / "mine.py").write_text("print('registered')\n")
    options = {"device": "ascend310p3", "devices": 2, "register": [str(tmp_path / "mine.py")]}
    done = run_python(code, ACL_PY_RUN=json.dumps(options))
    assert done.stdout.split()[:1] + done.stdout.split()[2:] == ["registered", "Ascend310P3", "2", "0"]


@pytest.mark.parametrize(("names", "finds"), [(("ACL_PY_RUN",), True), ((), False)])
def test_python_adds_the_folder_at_its_start_where_acl_py_is_installed_and_the_variable_is_set(
    monkeypatch, names, finds
):
    monkeypatch.setattr(sys, "path", ["here"])
    monkeypatch.setattr(os, "environ", dict.fromkeys(names, "{}"))
    site.addpackage(str(forks.ROOT), "acl_py_run.pth", set())
    assert sys.path == [*([str(IMPORTED.parent.parent)] if finds else []), "here"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[", "is not JSON"),
        ("[]", "is not a JSON object but []"),
        ('{"card": 1}', "has the option 'card', but there are only device, devices, effects, faults, hang_after,"),
        ('{"models": "folder"}', "must have a list of paths in 'models', not 'folder'"),
    ],
)
def test_options_in_the_environment_that_cannot_be_used_are_refused_at_the_import(text, what):
    done = run_python("import acl", ACL_PY_RUN=text)
    assert done.returncode == 1
    *places, message = done.stderr.splitlines()
    assert '  File "<string>", line 1, in <module>' in places
    assert f"ValueError: the environment variable ACL_PY_RUN {what}" in message
    assert message.endswith('write it like this, or unset it: {"device": "ascend310p3", "devices": 2}')


def test_at_a_prompt_a_hang_is_an_error_and_not_the_end_of_the_session():
    code = """\
        import sys
        sys.ps1 = ">>> "
        import acl
        acl.rt.set_device(0)
        stream, _ = acl.rt.create_stream()
        event, _ = acl.rt.create_event_with_flag(1)
        acl.rt.stream_wait_event(stream, event)
        try:
            acl.rt.synchronize_stream(stream)
        except BaseException as error:
            print(type(error).__name__)
        """
    done = run_python(code)
    assert (done.returncode, done.stdout) == (0, "DeadlockError\n")


NOTEBOOK = """\
    import nbclient
    import nbformat

    cells = ["import acl; acl.rt.set_device(0)", "print(acl.get_soc_name())"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, kernel_name="python3").execute()
    print(notebook.cells[1].outputs[0].text)
    """


@pytest.mark.slow
def test_the_kernel_of_a_notebook_finds_acl(run):
    assert run(NOTEBOOK, options=("--device", "ascend310p3")).stdout == "Ascend310P3\n\n"


HANG = """\
    import multiprocessing
    import subprocess
    import sys
    from concurrent.futures import ProcessPoolExecutor
    import acl

    def work(device):
        acl.rt.set_device(device)
        stream, _ = acl.rt.create_stream()
        event, _ = acl.rt.create_event_with_flag(1)
        acl.rt.stream_wait_event(stream, event)
        acl.rt.synchronize_stream(stream)

    if __name__ == "__main__" and sys.argv[1] == "subprocess":
        other = "import script; script.work(0)"
        sys.exit(subprocess.run([sys.executable, "-c", other]).returncode)
    elif __name__ == "__main__":
        context = multiprocessing.get_context(sys.argv[1])
        if sys.argv[2] == "Pool":
            with context.Pool(2) as pool:
                pool.map(work, [0])
        elif sys.argv[2] == "Executor":
            with ProcessPoolExecutor(1, mp_context=context) as pool:
                pool.submit(work, 0).result()
        process = context.Process(target=work, args=(0,))
        process.start()
        process.join()
        sys.exit(process.exitcode)
    """


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "arguments",
    [
        ("subprocess",),
        ("fork", "Process"),
        ("spawn", "Process"),
        ("fork", "Pool"),
        ("spawn", "Pool"),
        ("spawn", "Executor"),
    ],
    ids="-".join,
)
@pytest.mark.slow
def test_a_process_of_the_script_that_hangs_ends_with_3_as_the_script_itself_would(run, arguments):
    done = run(HANG, *arguments)
    assert done.returncode == 3
    assert done.stderr.startswith("acl-py: on a card this would hang\n")
    assert "acl.rt.synchronize_stream(stream 1) at script.py:12 can never end" in done.stderr
