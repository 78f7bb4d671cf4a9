"""Lines of code: what counts and what does not."""

from tests.measures.lines import lines_of

TEXT = '''"""The docstring
of a module."""

import os
from sys import (
    argv,
)


# A comment.
def first():
    """A docstring."""
    return """a page

of two lines"""  # and a comment


class Empty:
    "A docstring."

    number = 1; other = 2
'''


def test_docstrings_comments_blanks_and_imports_do_not_count():
    assert lines_of(TEXT) == 5  # def, two of the page, class, number
