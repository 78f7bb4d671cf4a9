"""What synchronises with what, as data."""

from dataclasses import FrozenInstanceError, fields

import pytest
from rig import Rig

from device_model.errors import DeviceError, Kind
from device_model.rules import (
    ACL,
    CUDA,
    CUDA_PER_THREAD,
    RULES,
    ContextGone,
    CopyKind,
    DefaultStream,
    Destroy,
    DeviceSync,
    EventClass,
    ForeignStream,
    HostToHost,
    Init,
    KernelFailure,
    PageableCopy,
    PeerAccess,
    Release,
    Reset,
    SyncCopy,
)

CUDA_ROWS = {
    "sync_copy": SyncCopy.IN_DEFAULT_STREAM,
    "pageable_copy": PageableCopy.STAGED,
    "host_to_host": HostToHost.WAITS,
    "copy_kind": CopyKind.MUST_FIT,
    "peer_access": PeerAccess.FOR_SPEED,
    "release": Release.WAITS_FOR_DEVICE,
    "destroy": Destroy.WORK_COMPLETES,
    "reset": Reset.ABANDONS,
    "context_gone": ContextGone.PRIMARY,
    "device_sync": DeviceSync.DEVICE,
    "foreign_stream": ForeignStream.ALLOWED,
    "events": (EventClass.SNAPSHOT,),
    "kernel_failure": KernelFailure.STICKY,
    "init": Init.COUNTED,
    "priorities": (0, -5),
}
ACL_ROWS = {
    "sync_copy": SyncCopy.OUTSIDE,
    "pageable_copy": PageableCopy.SYNCHRONOUS,
    "host_to_host": HostToHost.REFUSED,
    "copy_kind": CopyKind.CORRECTED,
    "peer_access": PeerAccess.FOR_COPIES,
    "release": Release.IMMEDIATE,
    "destroy": Destroy.WAITS,
    "reset": Reset.COUNTED,
    "context_gone": ContextGone.NONE,
    "device_sync": DeviceSync.CONTEXT,
    "foreign_stream": ForeignStream.REFUSED,
    "events": (EventClass.RECORDED, EventClass.FLAG, EventClass.SNAPSHOT),
    "kernel_failure": KernelFailure.PER_STREAM,
    "init": Init.ONCE,
    "priorities": (7, 0),
}


@pytest.mark.parametrize(
    ("rules", "name", "default_stream", "expected"),
    [
        (CUDA, "cuda", DefaultStream.LEGACY, CUDA_ROWS),
        (CUDA_PER_THREAD, "cuda_per_thread", DefaultStream.PER_THREAD, CUDA_ROWS),
        (ACL, "acl", DefaultStream.INDEPENDENT, ACL_ROWS),
    ],
)
def test_the_rows(rules, name, default_stream, expected):
    rows = {field.name: getattr(rules, field.name) for field in fields(rules)}
    del rows["codes"]
    assert rows == {"name": name, "default_stream": default_stream, **expected}
    assert repr(rules) == f"<SyncRules {name}>"


def test_rules_are_found_by_name_and_cannot_be_changed():
    assert dict(RULES) == {"cuda": CUDA, "cuda_per_thread": CUDA_PER_THREAD, "acl": ACL}
    with pytest.raises(FrozenInstanceError):
        CUDA.name = "mine"
    with pytest.raises(TypeError):
        CUDA.codes[Kind.UNKNOWN] = None


@pytest.mark.parametrize("rules", RULES.values(), ids=repr)
def test_every_kind_of_failure_has_a_code(rules):
    assert set(rules.codes) == set(Kind)
    for code in rules.codes.values():
        assert code.value > 0
        assert code.name.startswith("ACL_ERROR" if rules is ACL else "cudaError")


@pytest.mark.parametrize("rules", RULES.values(), ids=repr)
def test_one_number_has_one_name(rules):
    names = {}
    for code in rules.codes.values():
        assert names.setdefault(code.value, code.name) == code.name


@pytest.mark.parametrize(("rules", "name"), [(CUDA, "legacy"), (CUDA_PER_THREAD, "per_thread")])
def test_the_rules_say_which_stream_none_is(rules, name):
    rig = Rig(rules=rules)
    assert rig.context.default.name == name
    assert rig.device.create_context(None).default.name == f"{name} of context 1"


def test_per_thread_work_is_blocking_work():
    rig = Rig(rules=CUDA_PER_THREAD)
    rig.kernel(rig.context.default, 100)
    rig.kernel(rig.stream(), 100)
    rig.kernel(rig.legacy, 100)
    assert rig.run() == [("kernel", 0, 0, 100), ("kernel", 1, 0, 100), ("kernel", 0, 100, 200)]


def test_an_error_says_what_was_wrong_and_what_to_do():
    assert str(DeviceError(Kind.UNKNOWN, "it broke")) == "it broke"
    error = DeviceError(Kind.UNKNOWN, "it broke", "mend it")
    assert (str(error), error.kind, error.what, error.remedy) == (
        "it broke; mend it", Kind.UNKNOWN, "it broke", "mend it",
    )  # fmt: skip
