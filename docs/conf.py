"""The site: `make docs` builds it from the repository, and writes what is generated into docs/built."""

import sys
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent / "make"))

import counting
import gallery
import reference

import acl_py

BUILT = Path(__file__).parent / "built"

project = "acl_py"
version = release = acl_py.__version__
copyright = "the authors of acl_py"  # noqa: A001 - Sphinx's name
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

root_doc = "docs/index"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**"]
exclude_patterns = ["docs/*.py", "docs/make", "docs/built/notebooks"]
myst_heading_anchors = 4
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
html_copy_source = False


def generate(_: Sphinx) -> None:
    """Write the pages that are made of the code: reference, waits and gallery."""
    reference.write(BUILT)
    gallery.write(BUILT)


def without_folders(_: Sphinx, document: nodes.document) -> None:
    """Links to folders of the repository become plain text: a site has no page of a folder."""
    here = Path(document["source"]).parent
    for link in list(document.findall(pending_xref)):
        if link["reftype"] == "myst" and (here / link["reftarget"]).is_dir():
            link.replace_self(link.children)


def setup(app: Sphinx) -> None:
    """Connect what this project adds."""
    counting.Pages(app)
    app.connect("builder-inited", generate)
    app.connect("doctree-read", without_folders)
    app.connect("autodoc-process-docstring", reference.as_rst, priority=400)  # before napoleon
