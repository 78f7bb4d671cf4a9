"""A plug-in of pytest that lets tests of cuda.bindings find helpers which its wheel does not bring."""

from pathlib import Path


def pytest_configure(config):
    """Look for modules of the package also beside the tests."""
    import cuda.bindings

    tests = Path(config.args[0].partition("::")[0]).resolve()
    folder = next(each for each in tests.parents if each.name == "cuda_bindings")
    cuda.bindings.__path__.append(str(folder / "cuda" / "bindings"))
