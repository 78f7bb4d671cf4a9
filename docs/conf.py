"""The site: `make docs` builds it from the repository, and writes what is generated into docs/built.

With the tag `quick`, as in `make docs-quick`, it has no notebooks, and only those pictures of samples that are there.
"""

import re
import subprocess
import sys
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent / "make"))

import counting
import gallery
import reference
import words

import acl_py
from acl_py.teaching.pictures import AS_PAGE

BUILT = Path(__file__).parent / "built"
IS_QUICK = "quick" in tags  # noqa: F821 - Sphinx's name

# A server looks for this page at the top, where the folders of the repository are.
ENTRANCE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>acl_py</title>
<meta http-equiv="refresh" content="0; url=docs/index.html"></head>
<body><a href="docs/index.html">acl_py</a></body></html>
"""

project = "acl_py"
version = release = acl_py.__version__
copyright = "the authors of acl_py"  # noqa: A001 - Sphinx's name
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "sphinx_design"]

root_doc = "docs/index"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**"]
exclude_patterns = ["docs/*.py", "docs/make", "docs/built/notebooks", *(["docs/notebooks"] if IS_QUICK else [])]
suppress_warnings = ["toc", "myst.xref_missing"] if IS_QUICK else []
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
copybutton_prompt_text = "$ "  # where lines begin with it, the others are output and are not copied
nb_execution_mode = "off"  # the pages of notebooks have their outputs

default_role = "code"
napoleon_custom_sections = [("Waits", "params_style")]
napoleon_use_ivar = True
autodoc_typehints = "none"

html_theme = "furo"
html_title = f"acl_py {version}"
html_favicon = "favicon.svg"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["accessible.js"]
html_copy_source = False
html_extra_path = ["built/extra"]
(BUILT / "extra").mkdir(parents=True, exist_ok=True)  # Sphinx looks for it before `generate` fills it
html_search_scorer = str(BUILT / "scorer.js")
words.write_scorer(Path(__file__).parent / "make" / "scorer.js", Path(__file__).parent.parent, BUILT / "scorer.js")


def generate(_: Sphinx) -> None:
    """Write the pages that are made of the code: reference, waits and gallery, and the demo's."""
    reference.write(BUILT)
    gallery.write(BUILT, draws=not IS_QUICK)
    page = BUILT / "extra" / "demo" / "demo.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "acl_py", "demo", "--report", page], check=True, stdout=subprocess.DEVNULL)
    (BUILT / "extra" / "index.html").write_text(ENTRANCE, encoding="utf-8")


def with_words_apart(_: Sphinx, _name: str, source: list[str]) -> None:
    """The text of a picture gets one line: the parser drops the ends of its lines, and would join words."""
    source[0] = re.sub(r"!\[[^]]*\]\(", lambda text: text[0].replace("\n", " "), source[0])


def without_folders(app: Sphinx, document: nodes.document) -> None:
    """Links to folders of the repository become plain text: a site has no page of a folder. A page has the name of the
    folder beside it, without an ending.
    """
    here = Path(document["source"]).parent
    for link in list(document.findall(pending_xref)):
        target = link["reftarget"]
        if link["reftype"] == "myst" and target not in app.env.found_docs and (here / target).is_dir():
            link.replace_self(link.children)


def with_timelines(_: Sphinx, document: nodes.document) -> None:
    """Put the timelines of notebooks on their pages, where a comment names them: below a picture they are closed."""
    for comment in list(document.findall(nodes.raw)):
        name = re.fullmatch(r"<!-- timeline (\w+) -->\s*", comment.astext())
        if not name:
            continue
        if not (
            BUILT / "extra" / "timelines" / f"{name[1]}.html"
        ).exists():  # the notebook needs packages that are not here
            comment.parent.remove(comment)
            continue
        is_picture = (Path(document["source"]).parent / f"{name[1]}.png").exists()
        frame = f'<iframe class="demo" loading="lazy" src="../../timelines/{name[1]}.html" title="Timeline"></iframe>'
        whole = f"<details><summary>{AS_PAGE}</summary>{frame}</details>" if is_picture else frame
        comment.replace_self(nodes.raw("", whole, format="html"))


def setup(app: Sphinx) -> None:
    """Connect what this project adds."""
    counting.Pages(app)
    app.connect("builder-inited", generate)
    app.connect("source-read", with_words_apart)
    app.connect("doctree-read", without_folders)
    app.connect("doctree-read", with_timelines)
    app.connect("autodoc-process-docstring", reference.as_rst, priority=400)  # before napoleon
