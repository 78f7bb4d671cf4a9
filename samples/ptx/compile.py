"""Compiles the kernels of this folder: `python compile.py` writes vector_add.ptx and matmul.ptx.

It needs NVRTC (pip install 'acl_py[cuda]') and no GPU. The texts are kept, so that the samples run without a compiler.
"""

from pathlib import Path

from acl_py import ptx

for source in sorted(Path(__file__).parent.glob("*.cu")):
    text = ptx.compile(source.read_text(encoding="utf-8"), name=source.name).replace(f"{Path.cwd()}/", "")
    kept = [line for line in text.splitlines() if line.strip() and not line.startswith("//")]
    source.with_suffix(".ptx").write_text("\n".join(kept) + "\n", encoding="utf-8")
