"""The notebooks: how they are read, run in a kernel, and what they print.

`python -m tests.samples.notebooks` writes the programs of acl_py/teaching/data, those that notebooks name, and of each
notebook the `.out` file, the page in docs/notebooks, and in docs/built/notebooks the `.ipynb` with its outputs. There
each prediction is filled in with the guess that is in the file of the solutions.
"""

import ast
import json
import os
import re
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from acl_py.cli.common import progress
from tests.samples.cuda_packages import REASON, are_there

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "samples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("[0-9]*_*.py"))
MEASURED = [ROOT / "tests" / "conformance" / "data" / f"{name}.json" for name in ("semantics", "graphs", "managed")]
BUILT = ROOT / "docs" / "built" / "notebooks"
DATA = ROOT / "acl_py" / "teaching" / "data" / "h200.json"


def needs_more(notebook):
    """Whether *notebook* needs more than the extra `notebooks`: packages for CUDA."""
    return "teaching.need(" in notebook.read_text(encoding="utf-8")


def trouble(notebook):
    """Why *notebook* cannot be run here; "" if it can."""
    return REASON if needs_more(notebook) and not are_there() else ""


def executed(notebook, folder, *, guessed=False, solved=False):
    """*notebook* after its cells were run in a kernel in *folder*: with a guess in place of each blank prediction if
    *guessed*, and with the solution behind each exercise if *solved*.

    The kernel imports acl_py from *folder*, if it is there, and else as this process does. A cell that fails ends the
    run.
    """
    import jupytext
    import nbclient

    book = jupytext.read(notebook)
    if guessed:
        fill_in(book, notebook)
    if solved:
        solutions = iter(tagged(solutions_of(notebook), "solution"))
        pairs = [[cell, next(solutions)] if cell in tagged(book, "exercise") else [cell] for cell in book.cells]
        book.cells = [cell for pair in pairs for cell in pair]
    environment = os.environ | dict.fromkeys(("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "MPLCONFIGDIR"), str(folder))
    client = nbclient.NotebookClient(
        book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}},
        extra_arguments=["--log-level=ERROR"],  # its sockets on this machine are plain: no warning
    )  # fmt: skip
    # The kernel forgets the folder that it begins in, so another one on the path would come first.
    path = str(folder) if (folder / "acl_py").exists() else os.environ.get("PYTHONPATH", "")
    client.execute(env=environment | {"PYTHONPATH": path, "NO_COLOR": "1", "OPENBLAS_NUM_THREADS": "1"})
    return book


def fill_in(book, notebook):
    """Fill the predictions of *book*, which is *notebook* in Jupyter's form, in with its guesses."""
    for blank, guess in zip(tagged(book, "prediction"), tagged(solutions_of(notebook), "guess"), strict=True):
        blank.source = guess.source


def solutions_of(notebook):
    """The cells beside *notebook*: guesses for its predictions, and solutions of its exercises."""
    import jupytext

    return jupytext.read(FOLDER / "solutions" / notebook.name)


def tagged(book, tag):
    return [cell for cell in book.cells if tag in cell.metadata.get("tags", ())]


def printed(cell):
    """What *cell* printed, then its errors, and the text of its pictures."""
    outputs = cell.get("outputs", ())
    lines = ["".join(out.text for out in outputs if out.get("name") == name) for name in ("stdout", "stderr")]
    return "".join([*lines, *(f"{out.data['text/plain']}\n" for out in outputs if "data" in out)])


def output_of(book):
    """All that the cells of *book* printed, each under its number."""
    cells = [cell for cell in book.cells if cell.cell_type == "code" and printed(cell)]
    return "\n".join(f"[{cell.execution_count}]\n{printed(cell)}" for cell in cells)


def programs():
    """The measured programs that the notebooks name, by name; a replacement field of an f-string is any text."""
    strings = [
        node
        for notebook in NOTEBOOKS
        for node in ast.walk(compile(notebook.read_text("utf-8"), notebook.name, "exec", ast.PyCF_ONLY_AST | AWAIT))
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    ]
    patterns = {pattern(node) for node in strings}
    found = {}
    for program in chain.from_iterable(json.loads(file.read_text("utf-8")) for file in MEASURED):
        name = program["id"]
        if any(re.fullmatch(each, name) for each in patterns):
            found[name] = program
    return found


AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def pattern(node):
    if isinstance(node, ast.Constant):
        return re.escape(node.value)
    parts = [re.escape(part.value) if isinstance(part, ast.Constant) else "[^ ]+" for part in node.values]
    return "".join(parts) if "-" in "".join(parts) else "$"


def rewrite(notebook):
    """Run *notebook*, and write what it prints, its page, and the notebook with its outputs."""
    import nbformat

    from tests.samples.notebook_pages import PAGES, page_of

    with TemporaryDirectory() as folder:
        book = executed(notebook, Path(folder), guessed=True)
    notebook.with_suffix(".out").write_text(output_of(book), encoding="utf-8")
    (PAGES / f"{notebook.stem}.md").write_text(page_of(book, notebook.stem), encoding="utf-8")
    for cell in book.cells:
        cell.metadata.pop("execution", None)  # real times
    nbformat.write(book, BUILT / f"{notebook.stem}.ipynb")


if __name__ == "__main__":
    BUILT.mkdir(parents=True, exist_ok=True)
    lines = [f"{json.dumps(name)}: {json.dumps(program)}" for name, program in programs().items()]
    DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    wanted = [each for each in NOTEBOOKS if not sys.argv[1:] or each.name.partition("_")[0] in sys.argv[1:]]
    for each in filter(trouble, wanted):
        print(f"{each.name} stays as it is: {trouble(each)}")
    wanted = [each for each in wanted if not trouble(each)]
    with ProcessPoolExecutor() as pool, progress("notebooks", len(wanted)) as advance:
        for done in as_completed([pool.submit(rewrite, each) for each in wanted]):
            done.result()
            advance()
