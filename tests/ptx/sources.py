"""Finds the kernels in a checkout: strings of CUDA C in Python files, and files of CUDA C."""

import ast
import re

# What makes kernels of strings, by its name, and which argument has the source.
_ELEMENTWISE = {"ElementwiseKernel"}
_TYPES = {"T": "float", "float32": "float", "float64": "double", "int32": "int", "int64": "long long", "bool": "bool",
          "int8": "signed char", "uint8": "unsigned char", "int16": "short", "uint16": "unsigned short",
          "uint32": "unsigned int", "uint64": "unsigned long long", "float16": "__half"}  # fmt: skip
_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"].*$', re.MULTILINE)
_TEMPLATE = re.compile(r"template\s*<([^<>]*)>\s*(?:static\s+|inline\s+)*__global__[^;{]*?(\w+)\s*\(", re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_KNOWN = re.compile(r"^(cuda_\w+|device_\w+|cooperative_groups|cub/|curand_kernel|mma|cuda/|thrust/|vector_types|"
                    r"math_constants|cccl|nv/).*$")  # fmt: skip


def python_sources(text):
    """Yield the CUDA C in the strings of a Python file."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    seen = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) in _ELEMENTWISE:
            source = _elementwise(node)
            if source is not None and source not in seen:
                seen.add(source)
                yield source
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            source = node.value
            if "__global__" in source and "{" in source and source not in seen:
                seen.add(source)
                yield source


def _name(function):
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _elementwise(call):
    """The kernel that CuPy or PyCUDA makes of the strings of an elementwise kernel; None if they are not all there."""
    texts = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    if len(texts) == len(call.args) >= 3 and "*" not in texts[0] + texts[1]:
        return _of_cupy(texts[0], texts[1], texts[2])
    if len(texts) >= 2 and "*" in texts[0]:  # PyCUDA: C parameters, the operation
        body = f"for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {{ {texts[1]}; }}"
        return f'extern "C" __global__ void elementwise({texts[0]}, unsigned n) {{ {body} }}'
    return None


def _of_cupy(inputs, outputs, operation):
    parameters, values = [], []
    for text in filter(None, (each.strip() for each in f"{inputs},{outputs}".split(","))):
        words = text.split()
        if len(words) < 2:
            return None
        type_ = _TYPES.get(words[-2], "float" if len(words[-2]) == 1 else words[-2])
        parameters.append(f"{type_} *{words[-1]}" + ("" if "raw" in words else "_all"))
        if "raw" not in words:
            values.append(f"{type_} &{words[-1]} = {words[-1]}_all[i];")
    names = "".join(f"typedef float {letter};\n" for letter in "TSUVW" if re.search(rf"\b{letter}\b", operation))
    return (
        f'{names}extern "C" __global__ void elementwise({", ".join(parameters)}, int _n) {{\n'
        f"for (int i = threadIdx.x; i < _n; i += blockDim.x) {{ {' '.join(values)} {operation}; }} }}"
    )


def kernels_of(text):
    """The parts of a file of CUDA C that a card runs: all but the functions of the host."""
    clean = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
    kept = []
    for item in _items(clean):
        head = item.split("{", 1)[0]
        is_function = "(" in head and "{" in item and not re.search(r"\b(struct|class|enum|namespace|union)\s+\w*\s*$",
                                                                    head.strip())  # fmt: skip
        if is_function and not re.search(r"__global__|__device__|constexpr|DEVICE|operator", head):
            continue
        is_of_host = re.search(r"\bstd::|\bcuda\w+_t\b|\bFILE\b|cout|\w\s*\(", head)
        is_of_card = re.search(r"__(device|constant|shared|global)__|^\s*#", head)
        if not is_function and "{" not in item and is_of_host and not is_of_card:
            continue
        kept.append(item)
    return "".join(kept)


def _items(text):
    """Yield what stands at the outermost level: lines for the preprocessor, and declarations up to their ends."""
    start = at = depth = 0
    while at < len(text):
        char = text[at]
        if char == "#" and not depth and not text[start:at].strip():
            end = at
            while True:
                end = text.find("\n", end)
                end = len(text) if end < 0 else end + 1
                if text[:end].rstrip("\n")[-1:] != "\\" or end == len(text):
                    break
            yield text[start:end]
            start = at = end
            continue
        if char in "\"'":
            end = at + 1
            while end < len(text) and text[end] != char and text[end] != "\n":
                end += 2 if text[end] == "\\" else 1
            at = end + 1
            continue
        depth += (char == "{") - (char == "}")
        at += 1
        if (char == "}" and depth == 0 and text[at:].lstrip()[:1] != ";") or (char == ";" and depth == 0):
            yield text[start:at]
            start = at
    yield text[start:]


def without_host_headers(text):
    """The text without the headers of the host, which NVRTC has not."""
    return _INCLUDE.sub(lambda match: match[0] if _KNOWN.match(match[1]) else "", text)


def instances(text):
    """The names of instances of the templates of kernels: types are float, numbers 32."""
    names = []
    for parameters, name in _TEMPLATE.findall(_COMMENT.sub("", text)):
        given = []
        for parameter in parameters.split(","):
            kind = parameter.split("=")[0].strip()
            given.append("float" if re.match(r"typename|class", kind) else "true" if kind.startswith("bool") else "32")
        names.append(f"{name}<{', '.join(given)}>")
    return names
