"""`%load_ext acl_py` in a notebook."""

from textwrap import dedent

from tests import forks

SHELL = dedent("""
    import ctypes
    import acl_py

    class Shell:
        def register_magic_function(self, function, kind, name):
            setattr(self, name, function)

    shell = Shell()
    acl_py.load_ipython_extension(shell)
""")


def test_acl_and_the_driver_are_in_place_and_the_end_prints_the_summary():
    done = forks.run("-c", SHELL + dedent("""
        import acl
        shell.acl_summary("")
        cuda = ctypes.CDLL("libcuda.so.1")
        codes = [cuda.cuInit(0)]
        acl.rt.set_device(0)
        page = shell.acl_timeline("")
        print(codes, "Timeline" in page._repr_html_())
        acl_py.unload_ipython_extension(shell)
        print(cuda.cuInit(0))
        """))  # fmt: skip
    first, second, third, *summary, last = done.stdout.splitlines()
    assert (first, second, last, done.stderr) == ("no call has been made", "[0] True", "3", "")
    assert third.startswith("h200, rules cuda: "), summary


def test_options_come_from_the_environment():
    env = {"ACL_PY_RUN": '{"device": "tiny", "rules": "cuda"}', "PATH": ""}
    done = forks.run("-c", SHELL + dedent("""
        ctypes.CDLL("libcuda.so.1").cuInit(0)
        acl_py.unload_ipython_extension(shell)
        """), env=env)  # fmt: skip
    assert done.stdout.startswith("tiny, rules cuda: "), done.stderr
