"""How many kernels of public repositories use only names of Ascend C that are here: `python -m tests.aicore.names DIR`.

DIR has checkouts of these repositories, under their names. It is only read, and nothing is fetched:

    ops-nn ops-math ops-transformer catlass cann-samples asc-devkit

A *name* is one with a page in asc-devkit's docs/zh/api/SIMD-API that is called in a kernel: those of tiling and the
host, of configurations and workspaces (which are Python arguments here), and of registers, which only Ascend 950 has,
are left out. A kernel does not lack a name that functions of its folder have. A *kernel* is a folder whose own sources
use five names or more. Folders of tests, of the host and tiling, and of other cores are left out, as their paths show.

`--table` writes acl_py/kernel_names.tsv again from the pages of asc-devkit in DIR.
"""

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

from acl_py import kernel_names
from acl_py.kernel_names import NameKind
from acl_py.tools import kernel_sources

REPOSITORIES = ("ops-nn", "ops-math", "ops-transformer", "catlass", "cann-samples", "asc-devkit")
PAGES = Path("asc-devkit/docs/zh/api/SIMD-API")
LEAST = 5  # names of a folder that counts as a kernel
SHOWN = 40  # names that are missing
SUFFIXES = (".cpp", ".h", ".hpp", ".asc", ".cce")
COUNTED = (NameKind.CORE, NameKind.OTHER)
_TESTS = re.compile(r"(^|/)(tests?|ut)(/|$)")
_OTHER_CORES = re.compile(r"950|3510|arch35|(^|[_/])a5($|[_/])|regbase|simt")
_HOST = re.compile(r"host|tiling|op_api|op_graph|(^|/)scripts?(/|$)|(^|/)3rdparty(/|$)")
_OF_KERNELS = re.compile(r"kernel_operator|__aicore__|AscendC")


def kernels_in(directory):
    """The names that each folder of kernels in *directory* uses, with how often: folder -> name -> uses."""
    return {folder: uses for folder, (uses, _) in _folders_in(directory).items()}


def own_names_in(directory):
    """The names that each folder of kernels in *directory* gives to functions of its own: folder -> names."""
    return {folder: own for folder, (_, own) in _folders_in(directory).items()}


@cache
def _folders_in(directory):
    found = {}
    for repository in REPOSITORIES:
        # The other sources of asc-devkit are those of the names themselves.
        root = directory / repository / ("examples" if repository == "asc-devkit" else "")
        for folder, _, files in os.walk(root):
            path = Path(folder).relative_to(directory).as_posix()
            if "/.git" in path or any(part.search(path.lower()) for part in (_TESTS, _OTHER_CORES, _HOST)):
                continue
            uses, own = _uses(Path(folder, name) for name in sorted(files) if name.endswith(SUFFIXES))
            if len(uses) >= LEAST:
                found[path] = uses, own
    return found


def _uses(files):
    uses, own, has_kernel = Counter(), set(), False
    for file in files:
        if _OTHER_CORES.search(file.name.lower()):
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        has_kernel |= _OF_KERNELS.search(text) is not None
        own |= kernel_sources.defined(text)
        for name, lines in kernel_sources.used(text).items():
            if kernel_names.table()[name] in COUNTED:
                uses[name] += len(lines)
    return (uses if has_kernel else Counter()), own


def report(kernels, here, own):
    """The lines that say how many *kernels* use only names that are *here*, and which names the others lack.

    *own* has the names of each kernel's own functions, which it does not lack.
    """
    lacking = {
        folder: [name for name in uses if name not in here and name not in own[folder]]
        for folder, uses in kernels.items()
    }
    calls = sum(sum(uses.values()) for uses in kernels.values())
    ours = calls - sum(kernels[folder][name] for folder, names in lacking.items() for name in names)
    yield f"{'':16}{'kernels':>8}{'all here':>10}{'one other':>11}"
    for repository in (*REPOSITORIES, ""):
        names = [each for folder, each in lacking.items() if folder.startswith(repository)]
        ends = sum(not each for each in names), sum(len(each) == 1 for each in names)
        yield f"{repository or 'together':16}{len(names):8,}{ends[0]:10,}{ends[1]:11,}"
    yield f"{ours:,} of {calls:,} calls are of names that are here: {ours / max(calls, 1):.1%}"
    by_own = sum(not names and any(name not in here for name in kernels[folder]) for folder, names in lacking.items())
    yield f"{by_own:,} of the kernels have all names because functions of their own have the others"
    others = [names for names in lacking.values() if names]
    of_others = sum(all(kernel_names.table()[name] is NameKind.OTHER for name in names) for names in others)
    yield f"{of_others:,} of the {len(others):,} others lack only names that Atlas A2 and A3 do not have"
    folders = Counter(name for names in lacking.values() for name in names)
    alone = Counter(names[0] for names in lacking.values() if len(names) == 1)
    yield f"{'missing':28}{'in kernels':>11}{'alone in':>10}"
    for name, count in folders.most_common(SHOWN):
        yield f"{name:28}{count:11}{alone[name]:10}"


def commit_of(checkout):
    """The commit of a checkout and its date."""
    command = ["git", "-C", str(checkout), "log", "-1", "--format=%H %cs"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    return shown.stdout.strip() if shown.returncode == 0 else f"no commit: {shown.stderr.strip()}"


# The table of names

_SUPPORT = r"{}：(支持|不支持)|{}[^|\n]*\|\s*(√|x)"
_A2 = re.compile(_SUPPORT.format(*["A2 训练系列产品/Atlas A2 推理系列产品"] * 2))
_HOST_PAGE = re.compile("Tiling|TmpSize|TmpBufferFactor|IsBasicBlockInSoftMax|获取Matmul|CPU孪生|自定义TBufPool")
_REGISTER_PAGE = re.compile("Reg矢量|TensorAPI")
_OTHER_OVERVIEW = frozenset({"Mutex"})  # overviews that do not say for which cards they are, which is for other ones
_SHAPE_PAGE = re.compile("辅助数据结构/(Coordinate|Layout)/")
_ARGUMENTS = re.compile(
    "GetUserWorkspace|GetSysWorkSpacePtr|SetSysWorkSpace|InitSocState|SetSubBlockIdx|assert|ascendc_assert"
    "|(Get)?(MDL|Normal|MM|SpecialMDL|IBShareNorm|Basic|SpecialBasic|Matmul)Config"
)
# Headings of the reference that are no names.
_HEADINGS = frozenset(
    "API Channel Context F32 GEMV HCCL HF32 Int8 Introduction K L0A L0C L1 Merge NZ2DN NZ2ND NZ2NZ Pointer SIMD Split "
    "UnitFlag operator workspace1".split()
)


def kinds_in(pages):
    """The kind of each name that has a page in *pages*."""
    kinds = {}
    for page in sorted(pages.rglob("*.md")):
        path = page.relative_to(pages).as_posix()
        if path.startswith("C-API"):
            continue
        for name in re.sub(r"（.*?）|\(.*?\)", "", page.stem).split("-"):
            if re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) and name not in _HEADINGS:
                kinds.setdefault(name, set()).add(_kind_of(name, path, page.read_text(encoding="utf-8")))
    return {name: next(kind for kind in _FIRST if kind in found) for name, found in sorted(kinds.items())}


# Of several pages of a name, that of the first of these kinds says what it is.
_FIRST = (NameKind.CORE, NameKind.OTHER, NameKind.REGISTER, NameKind.ARGUMENT, NameKind.HOST)


def _kind_of(name, path, text):
    if _ARGUMENTS.fullmatch(name) or _SHAPE_PAGE.search(path):
        return NameKind.ARGUMENT
    if _REGISTER_PAGE.search(path):
        return NameKind.REGISTER
    if _HOST_PAGE.search(path):
        return NameKind.HOST
    support = _A2.search(text)
    # A page that does not say which cards it is for is an overview of a class, or a list of values.
    is_other = name in _OTHER_OVERVIEW or (support is not None and support[1] == "不支持")
    return NameKind.OTHER if is_other else NameKind.CORE


def write_table(directory):
    """Write the table of names again."""
    head = f"# Names with a page in asc-devkit's docs/zh/api/SIMD-API at {commit_of(directory / 'asc-devkit')}"
    lines = [head, *(f"{name}\t{kind}" for name, kind in kinds_in(directory / PAGES).items())]
    Path(kernel_names.__file__).with_suffix(".tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.aicore.names", description=__doc__.split("\n")[0])
    parser.add_argument("directory", metavar="DIR", type=Path, help="a folder with checkouts")
    parser.add_argument("--table", action="store_true", help="write the table of names again from asc-devkit's pages")
    options = parser.parse_args()
    if options.table:
        if not (options.directory / PAGES).is_dir():
            sys.exit(f"{options.directory / PAGES} is not there: --table reads the pages of a checkout of asc-devkit")
        write_table(options.directory)
        return
    for repository in REPOSITORIES:
        checkout = options.directory / repository
        print(f"{repository:16} {commit_of(checkout) if checkout.is_dir() else 'not in DIR: not counted'}")
    kernels = kernels_in(options.directory)
    if not kernels:
        sys.exit(f"no kernel in {options.directory}: it must have checkouts of {', '.join(REPOSITORIES)}")
    print(*report(kernels, kernel_sources.here(), own_names_in(options.directory)), sep="\n")


if __name__ == "__main__":
    main()
