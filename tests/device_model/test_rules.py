"""What synchronises with what, as data."""

from dataclasses import FrozenInstanceError, fields

import pytest
from rig import Rig

from device_model.errors import DeviceError, Kind
from device_model.rules import (
    CUDA,
    CUDA_PER_THREAD,
    RULES,
    DefaultStream,
    Destroy,
    DeviceSync,
    HostToHost,
    KernelFailure,
    PageableCopy,
    Release,
    SyncCopy,
    Unrecorded,
)

ROWS = {
    "sync_copy": SyncCopy.IN_DEFAULT_STREAM,
    "pageable_copy": PageableCopy.STAGED,
    "host_to_host": HostToHost.WAITS,
    "release": Release.WAITS_FOR_DEVICE,
    "destroy": Destroy.WORK_COMPLETES,
    "device_sync": DeviceSync.DEVICE,
    "unrecorded": Unrecorded.NO_EFFECT,
    "kernel_failure": KernelFailure.STICKY,
}


@pytest.mark.parametrize(
    ("rules", "name", "default_stream"),
    [(CUDA, "cuda", DefaultStream.LEGACY), (CUDA_PER_THREAD, "cuda_per_thread", DefaultStream.PER_THREAD)],
)
def test_the_rows(rules, name, default_stream):
    rows = {field.name: getattr(rules, field.name) for field in fields(rules)}
    codes = rows.pop("codes")
    assert rows == {"name": name, "default_stream": default_stream, **ROWS}
    assert codes is CUDA.codes
    assert repr(rules) == f"<SyncRules {name}>"


def test_rules_are_found_by_name_and_cannot_be_changed():
    assert dict(RULES) == {"cuda": CUDA, "cuda_per_thread": CUDA_PER_THREAD}
    with pytest.raises(FrozenInstanceError):
        CUDA.name = "mine"
    with pytest.raises(TypeError):
        CUDA.codes[Kind.UNKNOWN] = None


@pytest.mark.parametrize("rules", RULES.values(), ids=repr)
def test_every_kind_of_failure_has_a_code(rules):
    assert set(rules.codes) == set(Kind)
    for code in rules.codes.values():
        assert code.value > 0
        assert code.name.startswith("cudaError")


def test_one_number_has_one_name():
    names = {}
    for code in CUDA.codes.values():
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
