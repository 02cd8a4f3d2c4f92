"""What those who hand in at once say to each other comes back as what it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.evalqueue.slips import Slip, read_receipt, read_slip, receipt_text, slip_text
from codeflash_parallel.model.jobs import Instant, Job, JobRequest, JobState, Place, Receipt

TEXT = st.text(st.characters(), max_size=20)
SECONDS = st.floats(allow_nan=False, allow_infinity=False)
INSTANTS = st.builds(Instant, wall_s=SECONDS, boot_s=SECONDS, boot_id=TEXT)
JOBS = st.builds(Job, submitted=INSTANTS, payload=TEXT, result=TEXT, cpu_s=SECONDS)
PLACES = st.builds(Place, wait_s=SECONDS)


def is_same(one: object, other: object) -> bool:
    """Say whether both are the same as text: what is not a number is not equal to itself."""
    return repr(one) == repr(other)


@given(st.builds(Slip, st.from_type(JobRequest), INSTANTS, was_put_down=st.just(value=False)))
def test_slips(slip: Slip):
    assert is_same(read_slip(slip_text(slip)), slip)


@given(st.builds(Receipt, job=JOBS, place=PLACES))
def test_receipts(receipt: Receipt):
    read = read_receipt(receipt_text(receipt))
    assert is_same(read, receipt)
    assert isinstance(read.job.state, JobState)
    assert isinstance(read.job.submitted, Instant)
    assert [type(item) for item in read.place] == [type(item) for item in receipt.place]
