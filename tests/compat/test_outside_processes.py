"""Scripts that start processes: each finds `acl`, with the options of `acl-py run`, on cards of its own."""

import os
import subprocess
import sys
from textwrap import dedent

import pytest


@pytest.fixture
def run(tmp_path):
    """Write a script and run it: what came of it."""

    def run(script, *arguments, options=()):
        path = tmp_path / "script.py"
        path.write_text(dedent(script), encoding="utf-8")
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", "acl_py", "run", *options, str(path), *arguments],
            capture_output=True, encoding="utf-8", check=False, timeout=60, cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
        )  # fmt: skip

    return run


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


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_with_a_card_for_each(run, method):
    done = run(POOL, method, options=("--devices", "3"))
    assert (done.returncode, done.stderr) == (0, "")
    assert eval(done.stdout) == [(device, {0}, True, (3, 0)) for device in range(3)]


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
def test_a_process_of_the_script_that_hangs_ends_with_3_as_the_script_itself_would(run, arguments):
    done = run(HANG, *arguments)
    assert done.returncode == 3
    assert done.stderr.startswith("acl-py: on a card this would hang\n")
    assert "acl.rt.synchronize_stream(stream 1) at script.py:12 can never end" in done.stderr
