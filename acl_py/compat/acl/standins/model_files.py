"""Finds the model of a model file, by its path or its content.

What is registered comes first, then a sidecar, then the file itself if `acl-py atc` wrote it. Any other file without a
sidecar is an AclError, and the sidecar to write is printed.
"""

import ctypes
from pathlib import Path

from acl_py.compat.acl.face.session import INVALID_PARAM, Session
from acl_py.compat.acl.face.tracebacks import traceback_text
from acl_py.compat.acl.standins import graph_files, sidecars, vendor_files
from acl_py.compat.acl.standins.computations import warn
from acl_py.compat.acl.standins.models import Model
from acl_py.errors import AclError
from acl_py.late_imports import import_late
from acl_py.verbs.kernels import Cost
from device_model.library.spec import Product
from device_model.memory import DEVICE_BASE, host
from device_model.profile import DeviceProfile, names

MODEL_PATH_INVALID, MODEL_DATA_SIZE_INVALID, MODEL_ADDR_INVALID = 145002, 145006, 145007
LOAD_MODEL = 545001


def find(here: Session, path: str) -> Model:
    """Return the model of the file *path*. If there is none, print what to do and raise AclError."""
    if not Path(path).name:
        raise here.error(MODEL_PATH_INVALID, f"{path!r} names no file")
    try:
        model = sidecars.find(path, _directories(here))
    except sidecars.SidecarError as error:
        raise _broken(here, error) from error
    if model is None:
        model = _in_file(here, path)
    _check_time(here, model, path)
    return model


def find_in_memory(here: Session, address: int, size: int) -> Model:
    """Return the model of the file in host memory. If there is none, print what to do and raise AclError."""
    content = bytes_at(here, address, size)
    try:
        model = sidecars.find_content(content, _directories(here))
    except sidecars.SidecarError as error:
        raise _broken(here, error) from error
    if model is None:
        if not content.startswith(graph_files.MAGIC):
            raise _unknown_content(here, content)
        model = _of_graph(here, content, f"the model of {size} bytes", None)
    _check_time(here, model, model.name)
    return model


def _in_file(here: Session, path: str) -> Model:
    """Return the model in the file *path*, if `acl-py atc` wrote it; else print what to do and raise AclError."""
    try:
        with open(path, "rb") as file:
            head = file.read(len(graph_files.MAGIC))
            if head == graph_files.MAGIC:
                return _of_graph(here, head + file.read(), path, Path(path).stem)
    except FileNotFoundError:
        pass  # _unknown() says so
    except OSError as error:
        raise here.error(MODEL_PATH_INVALID, f"{path}: {error.strerror}") from error
    raise _unknown(here, path)


def _of_graph(here: Session, content: bytes, path: str, name: str | None) -> Model:
    """Return the model in *content*, which `acl-py atc` wrote, under *name* or the one that it was made with."""
    try:
        description, onnx = graph_files.unpack(content)
    except graph_files.GraphFileError as error:
        warn(f"{path}: {error}", "write it again with acl-py atc, or copy it again")
        raise here.error(MODEL_DATA_SIZE_INVALID, f"{path}: {error}") from error
    building = import_late(f"{__package__}.graphs.building")
    try:
        model: Model = building.model_in(description, onnx, name or description.name)
    except ValueError as error:
        warn(f"{path}: {error}", "")
        raise here.error(LOAD_MODEL, f"{path}: {error}") from error
    _check_chip(here, description.soc_version, path)
    return model


def _check_chip(here: Session, chip: str, path: str) -> None:
    """Note a finding if a model was made for another chip than that of the run."""
    card = here.runtime.profile.name
    known = [each for each in names() if chip.lower().startswith(each)]
    if max(known, key=len, default=chip.lower()) != card:
        here.warn_once(
            f"{path} was made for {chip}, and the card is {card}: make it with `acl-py atc --soc_version={_soc(card)}`"
        )


def _soc(card: str) -> str:
    return "Ascend" + card.removeprefix("ascend").upper() if card.startswith("ascend") else card


def cost_of(profile: DeviceProfile, model: Model, flops: float, nbytes: int | None = None) -> Cost:
    """Return what *flops* of *model* cost on a card. The rate is that of large products in the type that the model
    computes in, or that of the vector units if the card does not multiply matrices of this type. It moves *nbytes*; by
    default, the bytes of its arguments.
    """
    products = None if profile.library is None else profile.library.products
    product: Product | None = getattr(products, model.precision, None)
    return Cost(flops=flops if product is None else flops * (profile.cores.flops / product.flops), bytes=nbytes)


def _check_time(here: Session, model: Model, name: str) -> None:
    """Refuse a model whose *flops* take longer than simulated time lasts; the card's speed is known only here."""
    profile = here.runtime.profile
    for flops in model.flops:
        try:
            cost_of(profile, model, flops).block_ns(profile, profile.cores.count, (), 0, exclusive=True)
        except ValueError as error:
            what = f"{name}: flops = {flops:g} would take longer on {profile.name} than simulated time lasts, 146 years"
            remedy = "make flops smaller, in the sidecar or in register_model()"
            warn(what, remedy)
            raise here.error(LOAD_MODEL, f"{what}; {remedy}") from error


def bytes_at(here: Session, address: int, size: int) -> bytes:
    """The *size* bytes of a model file at *address*, or an AclError."""
    if not address:
        raise here.error(INVALID_PARAM, "the model is NULL")
    if not size:
        raise here.error(MODEL_DATA_SIZE_INVALID, "the model has no bytes")
    if address < DEVICE_BASE:
        here.check_extent(address, size)
        if not host.is_readable(address, size):
            raise here.error(MODEL_ADDR_INVALID, f"this process has no {size} bytes at {address:#x}")
        return ctypes.string_at(address, size)
    place = here.place(address, size, "the model")
    return bytes(place.allocation.view[place.offset : place.offset + size])


def find_bundle(here: Session, path: str) -> list[str]:
    """Return the model files of the bundle *path*. If they are not known, print what to do and raise AclError."""
    if not Path(path).name:
        raise here.error(MODEL_PATH_INVALID, f"{path!r} names no file")
    try:
        files = sidecars.bundle(path, _directories(here))
    except sidecars.SidecarError as error:
        raise _broken(here, error) from error
    if files is not None:
        return files
    file = Path(path)
    warn(f"{path}: list its models in {sidecars.sidecar_of(file)}, like this:", 'bundle = ["a.om", "b.om"]')
    raise here.error(MODEL_PATH_INVALID, f"{path} has no sidecar")


def find_bundle_in_memory(here: Session, address: int, size: int) -> list[str]:
    """Return the model files of a bundle in host memory. If they are not known, print what to do and raise AclError."""
    content = bytes_at(here, address, size)
    file = sidecars.bundle_file(content, _directories(here))
    if file is None:
        raise _unknown_content(here, content)
    return find_bundle(here, str(file))


def _directories(here: Session) -> list[Path]:
    return [Path(each) for each in here.options.models]


def _unknown(here: Session, path: str) -> AclError:
    file = Path(path)
    if not file.is_file():
        there, code, tensors = "there is no such file, and a model file cannot run here", MODEL_PATH_INVALID, None
    else:
        there, code, tensors = _told(file.read_bytes())
    example = sidecars.template(file) if tensors is None else sidecars.template(file, tensors.inputs, tensors.outputs)
    warn(f"{path}: {there}; write {sidecars.sidecar_of(file)}. `acl-py model init {path}` writes this one:", example)
    return here.error(code, f"{path} has no sidecar {sidecars.sidecar_of(file).name}; {there}")


def _told(content: bytes) -> tuple[str, int, vendor_files.Tensors | None]:
    """Return what to say of a model file that has no sidecar, the code of a card, and the tensors in the file."""
    try:
        tensors = vendor_files.read(content)
    except vendor_files.VendorFileError as error:
        if error.is_cut:
            return f"a card takes no such file: {error}", MODEL_DATA_SIZE_INVALID, None
        return f"a model file cannot run here, and this one does not say its inputs: {error}", MODEL_PATH_INVALID, None
    return "a model file cannot run here", MODEL_PATH_INVALID, tensors


def _unknown_content(here: Session, content: bytes) -> AclError:
    size = len(content)
    try:
        vendor_files.read(content)
    except vendor_files.VendorFileError as error:
        if error.is_cut:
            what = f"the {size} bytes are no model file: {error}"
            warn(what, "a sidecar of a file with these bytes would say what they compute")
            return here.error(MODEL_DATA_SIZE_INVALID, what)
    warn(
        f"no model file with these {size} bytes has a sidecar in the current directory, the script's, or model/ or "
        "models/ in or beside them",
        "pass the folder that has file.om and file.om.toml with --models DIR; acl-py model init writes the latter",
    )
    return here.error(LOAD_MODEL, f"no model file with these {size} bytes has a sidecar")


def _broken(here: Session, error: sidecars.SidecarError) -> AclError:
    cause = error.__cause__
    warn(str(error), "" if cause is None else traceback_text(cause))
    return here.error(LOAD_MODEL, str(error))
