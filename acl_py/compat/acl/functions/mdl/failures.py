"""acl.mdl: what a failed task was working on, for the functions of acl.rt.set_exception_info_callback."""

from collections.abc import Sequence

from acl_py.compat.acl.face.binding import gives
from acl_py.compat.acl.face.dtypes import DATA_TYPES
from acl_py.compat.acl.face.session import INVALID_PARAM, Session
from acl_py.compat.acl.functions.base.tensors import TensorDesc
from acl_py.compat.acl.functions.rt.reports import Failure
from acl_py.compat.acl.standins.computations import Computation
from acl_py.compat.acl.standins.models import FORMATS
from device_model.memory import Buffer
from device_model.work import Extent, Work

GET_TENSOR_INFO = 545008
_LONGEST_NAME = 4096  # that the binding makes room for
_BYTES, _ND = DATA_TYPES["uint8"], FORMATS["ND"]


@gives("uuuk", failure=("", 0, 0, 0, 0))
def create_and_get_op_desc(
    here: Session, device: int, stream: int, task: int, length: int
) -> tuple[str, int, int, int, int]:
    """Return the name of the task that an exception callback is being called for, and descriptions of what it reads and
    writes, each as a handle and a number (see acl.get_tensor_desc_by_index). The name must be shorter than *length*.
    """
    if length > _LONGEST_NAME:
        raise here.error(INVALID_PARAM, f"a name has at most {_LONGEST_NAME} characters")
    failure = next((each for each in _failures(here) if _numbers_of(each) == (device, stream, task)), None)
    if failure is None:
        name = f"task {task} of stream {stream} of device {device}"
        what = f"{name} is not the one that an exception callback is being called for"
        raise here.error(GET_TENSOR_INFO, what)
    work = failure.info.op.work
    if length <= len(work.label.name):
        raise here.error(INVALID_PARAM, f"the name has {len(work.label.name)} characters")
    inputs, outputs = _descriptions(work)
    return work.label.name, *_first(here, inputs), *_first(here, outputs)


def _failures(here: Session) -> list[Failure]:
    return [each for each in here.objects.values() if isinstance(each, Failure)]


def _numbers_of(failure: Failure) -> tuple[int, int, int]:
    return failure.info.device, failure.info.stream.id, failure.task


def _descriptions(work: Work) -> tuple[list[TensorDesc], list[TensorDesc]]:
    computation = getattr(getattr(work, "body", None), "__self__", None)
    if not isinstance(computation, Computation):
        return [_of_bytes(each) for each in work.reads()], [_of_bytes(each) for each in work.writes()]
    inputs = [_described(each.buffer, str(each.dtype), each.shape) for each in computation.inputs]
    outputs = [
        _described(each.buffer, str(each.dtype), (-1,) if each.shape is None else each.shape)
        for each in computation.outputs
    ]
    return inputs, outputs


def _described(buffer: Buffer | None, dtype: str, shape: Sequence[int]) -> TensorDesc:
    place = (0, 0) if buffer is None else (buffer.address, buffer.nbytes)
    return TensorDesc(DATA_TYPES[dtype], list(shape), _ND, constant=place)


def _of_bytes(extent: Extent) -> TensorDesc:
    allocation, start, stop = extent
    return TensorDesc(_BYTES, [stop - start], _ND, constant=(allocation.address + start, stop - start))


def _first(here: Session, descs: list[TensorDesc]) -> tuple[int, int]:
    """A handle of the first, which the others go with, and how many there are."""
    if not descs:
        return 0, 0
    descs[0].rest = descs[1:]
    return here.handle(descs[0]), len(descs)
