"""The codes of both vendors, and `acl-py explain-error`."""

import pytest
from typer.testing import CliRunner

from acl_py import Kind, codes
from acl_py.cli import app
from device_model.rules import RULES


def explain(*args):
    return CliRunner().invoke(app, ["explain-error", *args])


def test_both_vendors_have_their_codes_each_once():
    entries = codes.table()
    keys = [(entry.vendor, entry.number) for entry in entries]
    assert (len(keys), len(set(keys))) == (len(entries), len(entries))
    assert {vendor: sum(entry.vendor == vendor for entry in entries) for vendor in ("acl", "cuda", "hccl", "nccl")} == {
        "acl": 250, "cuda": 133, "hccl": 22, "nccl": 7,
    }  # fmt: skip
    assert all(entry.meaning and entry.name for entry in entries)


@pytest.mark.parametrize("rules", RULES.values(), ids=repr)
def test_every_code_of_the_rules_is_in_the_table_under_its_name(rules):
    vendors = ("acl", "hccl") if rules.name == "acl" else ("cuda", "nccl")
    names = {(entry.number, entry.name) for entry in codes.table() if entry.vendor in vendors}
    assert {(code.value, code.name) for code in rules.codes.values()} <= names


def test_every_kind_of_failure_has_advice():
    assert set(codes.ADVICE) == set(Kind)


@pytest.mark.parametrize(
    ("code", "parts"),
    [
        ("107002", ("ACL_ERROR_RT_CONTEXT_NULL", "SetDevice()")),
        ("context_null", ("107002",)),
        ("ACL_ERROR_RT_CONTEXT_NULL", ("107002",)),
        ("700", ("cudaErrorIllegalAddress", "FreeAsync()")),
        ("illegaladdress", ("700", "cudaErrorIllegalAddress")),
        ("CUDA_ERROR_ILLEGAL_ADDRESS", ("cudaErrorIllegalAddress", "an index outside its array")),
        ("CUDA_ERROR_OUT_OF_MEMORY", ("cudaErrorMemoryAllocation",)),
        ("107000", ("StreamWaitEvent()", "an argument is out of its range", "the kind of a copy")),
        ("507899", ("DRV_INTERNAL_ERROR", "fault rule")),
        ("100013", ("ACL_ERROR_PARSE_MODEL", "No simulation gives this code")),
    ],
)
def test_a_code_is_explained(code, parts):
    result = explain(code)
    assert result.exit_code == 0
    for part in parts:
        assert part in result.stdout


def test_an_unknown_code_has_neighbours():
    result = explain("107999")
    assert (result.exit_code, "107045" in result.stderr) == (2, True)
    result = explain("1070000")  # 107000 with a digit too many
    assert (result.exit_code, "107000 ACL_ERROR_RT_PARAM_INVALID" in result.stderr) == (2, True)
    result = explain("IllegalAdress")
    assert (result.exit_code, "700 cudaErrorIllegalAddress" in result.stderr) == (2, True)


def test_a_finding_is_told_from_a_code():
    result = explain("race")
    assert (result.exit_code, result.stderr) == (
        2, "race is no code but a finding of the sanitizer: its text names the lines and a fix\n",
    )  # fmt: skip


@pytest.mark.parametrize("code", ["0", "cudaSuccess", "ACL_SUCCESS"])
def test_success_is_no_error(code):
    done = explain(code)
    assert (done.exit_code, done.stdout) == (0, "0  the call has succeeded (cudaSuccess, ACL_SUCCESS)\n")
