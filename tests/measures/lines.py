"""Lines of code of the product, without docstrings, comments, blanks and imports.

Imports are left out because to divide a module in two makes more of them, and no more code. A string over several
lines, such as a page of HTML, counts with all its lines that are not blank. Counted so, there were 46,397 at 61983f4.

    python -m tests.measures lines [FOLDER]     of this checkout, or of another one in FOLDER
"""

import ast
import sys
import tokenize
from io import StringIO
from pathlib import Path

from tests.measures.sources import PACKAGES, ROOT, docstrings, files

_NO_CODE = {tokenize.COMMENT, tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def lines_of(text: str) -> int:
    """How many lines of code *text* has."""
    nodes = list(ast.walk(ast.parse(text)))
    tokens = tokenize.generate_tokens(StringIO(text).readline)
    with_code = {
        line for token in tokens if token.type not in _NO_CODE for line in range(token.start[0], token.end[0] + 1)
    }
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    left_out = {line for node in [*docstrings(nodes), *imports] for line in range(node.lineno, node.end_lineno + 1)}
    lines = text.splitlines()
    return sum(bool(lines[number - 1].strip()) for number in with_code - left_out)


def main(arguments):
    root = Path(arguments[0]) if arguments else ROOT
    numbers = {
        package: sum(lines_of(file.read_text(encoding="utf-8")) for file in files(package, root=root))
        for package in PACKAGES
    }
    for package, number in (numbers | {"both": sum(numbers.values())}).items():
        sys.stdout.write(f"{package:14}{number:>7,}\n")
