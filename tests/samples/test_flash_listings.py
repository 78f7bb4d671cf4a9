"""The listings of articles: what is found in each as it is written, and that the mended forms are right."""

import pytest
from listings import LISTINGS

import acl_py as acl

FOUND = {
    "cuda::pipeline with a shared state": [],
    "cuda::pipeline of each thread": [("RAW", "syncthreads()"), ("WAR", "syncthreads()")],
    "double buffer, syncthreads alone": [("RAW", "wait_group()"), ("WAW", "wait_group()")],
    "double buffer, one barrier": [("WAR", "syncthreads()")],
    "attention without a prologue": [("UNWRITTEN_READ", "a write to K")],
    "attention without a wait for V": [("RAW", "wait_group()")],
    "K and V in one group": [],
    "K and V in one group, waits for one": [("RAW", "wait_group()")],
}


def run(listing, kernel):
    """Return whether the result is right, the findings, and the time in ns."""
    launch, is_right = acl.run(listing.launch, kernel, device="h200")
    findings = launch.work.result.findings
    return is_right, {(finding.rule.name, finding.missing) for finding in findings}, launch.end_ns - launch.start_ns


def test_every_listing_is_expected():
    assert [listing.title for listing in LISTINGS] == list(FOUND)


@pytest.mark.parametrize("listing", LISTINGS, ids=lambda listing: listing.written.name)
def test_a_listing_has_the_findings_of_what_it_lacks_and_its_mended_form_has_none(listing):
    is_right, findings, written_ns = run(listing, listing.written)
    assert findings == set(FOUND[listing.title])
    assert is_right == (listing.title != "attention without a prologue")
    if listing.mended is None:
        assert not findings
        return
    is_right, findings, mended_ns = run(listing, listing.mended)
    assert is_right
    assert not findings
    if listing.title == "K and V in one group":
        assert mended_ns < written_ns  # it was right, and slow
