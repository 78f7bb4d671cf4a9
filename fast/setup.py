"""Build the compiled core: copy the modules and their types side by side, and compile them.

The modules are .py files of device_model and acl_py in the same checkout. `types/` has a .pxd file for each module
whose classes or functions get C types.
"""

import ast
import os
import re
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent.resolve()
ROOT = HERE.parent
STAGE = HERE / "build" / "sources"  # setuptools wants paths below its own folder
sys.path.insert(0, str(ROOT))
os.environ["ACL_PY_PURE"] = "1"

from device_model.compiled import digest_of, version_of  # noqa: E402 - the checkout is on the path now

MODULES = tuple((HERE / "modules.txt").read_text(encoding="utf-8").split())
VERSION = version_of(ROOT)
DIRECTIVES = {
    "language_level": "3",
    "annotation_typing": False,  # only the .pxd files give types
    "cdivision": False,  # // and % are Python's
    "overflowcheck": True,  # a number beyond 64 bits is an error, not another number
    "auto_pickle": False,
    "nonecheck": True,  # an attribute of None is an AttributeError, as in Python, and not the end of the process
    "binding": True,
    "embedsignature": False,
    "always_allow_keywords": True,
}
FLAGS = ["/O2", "/fp:precise"] if sys.platform == "win32" else ["-O2", "-g0", "-ffp-contract=off"]
FLAGS += os.environ.get("ACL_PY_FAST_FLAGS", "").split()
LINKED = ["-s"] if sys.platform == "linux" else []  # without names of files and functions, which nothing reads


def without_what_types_say(source: bytes, types: str) -> bytes:
    """Return *source* with empty lines for what *types* say in its place.

    These are fields that are only annotated, in the classes to which *types* give fields: such lines are for type
    checkers, and Cython would take each of them for one more field. And they are functions that *types* have in C,
    also where they are imported.
    """
    classes = re.findall(r"^cdef class (\w+)", types, re.MULTILINE)
    functions = re.findall(r"^cdef inline .*?(\w+)\(", types, re.MULTILINE)
    for names in re.findall(r"^from \S+ cimport (.+)$", types, re.MULTILINE):
        functions += [name for name in names.split(", ") if name.islower()]  # classes are imported in both ways
    lines = source.split(b"\n")

    def leave_out(node: ast.stmt) -> None:
        lines[node.lineno - 1 : node.end_lineno] = [b""] * (node.end_lineno - node.lineno + 1)

    for owner in ast.walk(ast.parse(source)):
        for node in owner.body if isinstance(owner, ast.ClassDef) and owner.name in classes else ():
            if isinstance(node, ast.AnnAssign) and node.value is None:
                leave_out(node)
        if isinstance(owner, ast.FunctionDef) and owner.name in functions:
            leave_out(owner)
        if isinstance(owner, ast.ImportFrom) and any(each.name in functions for each in owner.names):
            leave_out(owner)
            owner.names = [each for each in owner.names if each.name not in functions]
            lines[owner.lineno - 1] = ast.unparse(owner).encode() if owner.names else b""
    return b"\n".join(lines)


def staged() -> list[Extension]:
    """Copy modules, packages and types into one tree, and return an extension for each module.

    A file that has not changed is left as it is, so that nothing is compiled twice.
    """
    files = {Path(*module.split(".")).with_suffix(".py"): ROOT for module in MODULES}
    texts = {file: (ROOT / file).read_bytes() for file in files}
    for types in (HERE / "types").rglob("*.pxd"):
        file = types.relative_to(HERE / "types")
        texts[file] = types.read_bytes()
        module = file.with_suffix(".py")
        texts[module] = without_what_types_say(texts[module], types.read_text(encoding="utf-8"))
    for package in {parent for file in texts for parent in file.parents if parent.name}:
        texts[package / "__init__.py"] = b""  # it only says that its folder is a package
    for old in STAGE.rglob("*.p*"):
        if old.relative_to(STAGE) not in texts:
            old.unlink()
    for file, text in texts.items():
        target = STAGE / file
        if not target.exists() or target.read_bytes() != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
    return [
        Extension(module, [str((STAGE / file).relative_to(HERE))], extra_compile_args=FLAGS, extra_link_args=LINKED)
        for module, file in zip(MODULES, files, strict=True)
    ]


class Beside(build_ext):
    """Puts the modules below acl_py_fast, though their names do not have it."""

    def run(self) -> None:
        """Compile what has changed; remove modules of an earlier build that are not in this one, or they would run."""
        wanted = {os.path.abspath(self.get_ext_fullpath(module)) for module in MODULES}
        for suffix in (".so", ".pyd"):
            for built in Path(self.build_lib, "acl_py_fast").rglob(f"*{suffix}"):
                if os.path.abspath(built) not in wanted:
                    built.unlink()
        super().run()

    def get_ext_fullpath(self, ext_name: str) -> str:
        """Return where the compiler puts a module."""
        return os.path.join(self.build_lib, "acl_py_fast", self.get_ext_filename(ext_name))


class Noted(build_py):
    """Notes what the build is made of."""

    def run(self) -> None:
        """Write acl_py_fast/made.py."""
        super().run()
        folder = Path(self.build_lib, "acl_py_fast")
        folder.mkdir(parents=True, exist_ok=True)
        words = {"VERSION": VERSION, "DIGEST": digest_of(MODULES, ROOT), "MODULES": MODULES}
        (folder / "made.py").write_text("".join(f"{name} = {word!r}\n" for name, word in words.items()))


os.chdir(HERE)
setup(
    version=VERSION,
    install_requires=[f"acl-py=={VERSION}"],
    packages=["acl_py_fast"],
    ext_modules=cythonize(
        staged(),
        compiler_directives=DIRECTIVES,
        include_path=[str(STAGE)],
        build_dir=None,
        nthreads=0,
    ),
    cmdclass={"build_ext": Beside, "build_py": Noted},
    options={"build_ext": {"parallel": os.cpu_count()}},
)
