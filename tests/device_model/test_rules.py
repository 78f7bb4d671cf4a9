"""What synchronises with what, as data."""

from dataclasses import FrozenInstanceError, fields

import pytest
from rig import Rig

from device_model import rules
from device_model.errors import DeviceError, Kind

UNSAFE = {"ALLOCATES", "FREES", "SYNCHRONISES", "QUERIES", "COPIES"}
CUDA_ROWS = {
    "sync_copy": rules.SyncCopy.IN_DEFAULT_STREAM,
    "pageable_copy": rules.PageableCopy.STAGED,
    "host_to_host": rules.HostToHost.WAITS,
    "batched_copies": rules.BatchedCopies.ANY,
    "copy_kind": rules.CopyKind.MUST_FIT,
    "peer_access": rules.PeerAccess.FOR_SPEED,
    "release": rules.Release.WAITS_FOR_DEVICE,
    "destroy": rules.Destroy.WORK_COMPLETES,
    "destroy_context": rules.Destroy.WAITS,
    "reset": rules.Reset.WAITS,
    "context_gone": rules.ContextGone.PRIMARY,
    "device_sync": rules.DeviceSync.DEVICE,
    "foreign_stream": rules.ForeignStream.ALLOWED,
    "events": (rules.EventClass.SNAPSHOT,),
    "kernel_failure": rules.KernelFailure.STICKY,
    "managed_memory": rules.ManagedMemory.PAGES,
    "init": rules.Init.COUNTED,
    "unsafe_in_capture": {rules.HostCall[name] for name in UNSAFE},
    "collectives": rules.CollectiveRules.NCCL,
    "priorities": (0, -5),
}
ACL_ROWS = {
    "sync_copy": rules.SyncCopy.OUTSIDE,
    "pageable_copy": rules.PageableCopy.SYNCHRONOUS,
    "host_to_host": rules.HostToHost.REFUSED,
    "batched_copies": rules.BatchedCopies.ONE_WAY,
    "copy_kind": rules.CopyKind.CORRECTED,
    "peer_access": rules.PeerAccess.FOR_COPIES,
    "release": rules.Release.IMMEDIATE,
    "destroy": rules.Destroy.WAITS,
    "destroy_context": rules.Destroy.WORK_COMPLETES,
    "reset": rules.Reset.COUNTED,
    "context_gone": rules.ContextGone.NONE,
    "device_sync": rules.DeviceSync.CONTEXT,
    "foreign_stream": rules.ForeignStream.REFUSED,
    "events": (rules.EventClass.RECORDED, rules.EventClass.FLAG, rules.EventClass.SNAPSHOT),
    "kernel_failure": rules.KernelFailure.PER_STREAM,
    "managed_memory": rules.ManagedMemory.NONE,
    "init": rules.Init.ONCE,
    "unsafe_in_capture": {rules.HostCall.COPIES, rules.HostCall.COPIES_PAGEABLE},
    "collectives": rules.CollectiveRules.HCCL,
    "priorities": (7, 0),
}


@pytest.mark.parametrize(
    ("vendor", "name", "default_stream", "expected"),
    [
        (rules.CUDA, "cuda", rules.DefaultStream.LEGACY, CUDA_ROWS),
        (rules.CUDA_PER_THREAD, "cuda_per_thread", rules.DefaultStream.PER_THREAD, CUDA_ROWS),
        (rules.ACL, "acl", rules.DefaultStream.INDEPENDENT, ACL_ROWS),
    ],
)
def test_the_rows(vendor, name, default_stream, expected):
    rows = {field.name: getattr(vendor, field.name) for field in fields(vendor)}
    del rows["codes"]
    assert rows == {"name": name, "default_stream": default_stream, **expected}
    assert repr(vendor) == f"<SyncRules {name}>"


def test_rules_are_found_by_name_and_cannot_be_changed():
    assert dict(rules.RULES) == {"cuda": rules.CUDA, "cuda_per_thread": rules.CUDA_PER_THREAD, "acl": rules.ACL}
    with pytest.raises(FrozenInstanceError):
        rules.CUDA.name = "mine"
    with pytest.raises(TypeError):
        rules.CUDA.codes[Kind.UNKNOWN] = None


@pytest.mark.parametrize("vendor", rules.RULES.values(), ids=repr)
def test_every_kind_of_failure_has_a_code(vendor):
    assert set(vendor.codes) == set(Kind)
    for code in vendor.codes.values():
        assert code.value > 0
        assert code.name.startswith(("ACL_ERROR", "HCCL_E") if vendor is rules.ACL else ("cudaError", "nccl"))


@pytest.mark.parametrize("vendor", rules.RULES.values(), ids=repr)
def test_one_number_has_one_name(vendor):
    names = {}
    for code in vendor.codes.values():
        library = code.name[:4]
        assert names.setdefault((library, code.value), code.name) == code.name


@pytest.mark.parametrize(("vendor", "name"), [(rules.CUDA, "legacy"), (rules.CUDA_PER_THREAD, "per_thread")])
def test_the_rules_say_which_stream_none_is(vendor, name):
    rig = Rig(rules=vendor)
    assert rig.context.default.name == name
    assert rig.device.create_context(None).default.name == f"{name} of context 1"


def test_per_thread_work_is_blocking_work():
    rig = Rig(rules=rules.CUDA_PER_THREAD)
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
