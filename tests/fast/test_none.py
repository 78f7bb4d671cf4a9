"""To read a field of None is an AttributeError on both cores: on the compiled one it must not end the process."""

from pathlib import Path

from tests import forks
from tests.fast.nones import READS

ROOT = Path(__file__).parents[2]


def test_a_field_of_none_is_an_attribute_error():
    done = forks.run("-m", "tests.fast.nones", cwd=ROOT)
    assert (done.returncode, done.stdout.splitlines()) == (0, [f"{name}: AttributeError" for name in READS]), (
        done.stderr
    )
