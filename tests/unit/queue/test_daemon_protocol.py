"""Lines between daemon and clients: what goes in comes out, and what is malformed is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.queue.daemon_protocol import (
    DaemonInfo,
    WorkerInfo,
    _read_answer,
    alive_line,
    answer_line,
    error_line,
    read_info,
    read_request,
    request_line,
)
from codeflash_parallel.result.errors import (
    CodeflashParallelError,
    EnvironmentFault,
    InternalError,
    UsageError,
)

TEXT = st.text(st.characters(exclude_categories=())) | st.text()
SECONDS = st.floats(allow_nan=False, allow_infinity=False)
REQUESTS = st.one_of(
    st.just(("ping", {})),
    st.tuples(st.just("look"), st.fixed_dictionaries({"job_id": TEXT})),
    st.tuples(st.just("wait"), st.fixed_dictionaries({"job_id": TEXT, "max_s": SECONDS})),
)
INFO = DaemonInfo(
    pid=1, version="0", slots=3, slots_busy=1, workers=(WorkerInfo(pid=2, job_id="j"),), up_s=1.5
)


@given(REQUESTS)
def test_a_request_is_one_line_and_comes_back(request) -> None:
    call, arguments = request
    line = request_line(call, **arguments)

    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert read_request(line) == (call, arguments)


@pytest.mark.parametrize("value", [None, INFO])
def test_an_answer_is_one_line_and_comes_back(value) -> None:
    line = answer_line(value)

    assert line.count(b"\n") == 1
    assert line != alive_line()
    answer = _read_answer(line)
    assert (None if answer is None else read_info(answer)) == value


@pytest.mark.parametrize("kind", [UsageError, EnvironmentFault, InternalError])
def test_an_error_is_raised_as_one_of_its_family(kind: type[CodeflashParallelError]) -> None:
    with pytest.raises(kind) as caught:
        _read_answer(error_line(kind("SOME", "A message.", "A hint.")))

    assert vars(caught.value) == {"code": "SOME", "message": "A message.", "hint": "A hint."}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"", "BAD_CALL"),
        (b"\xff\n", "BAD_CALL"),
        (b"[1]\n", "BAD_CALL"),
        (b"[" * 100_000, "BAD_CALL"),
        (b'{"v": 2, "call": "ping", "args": {}}\n', "OTHER_PROTOCOL"),
        (b'{"call": "ping"}\n', "BAD_CALL"),
        (b'{"v": 3}\n', "BAD_CALL"),
        (b'{"v": 3, "call": "bake", "args": {}}\n', "BAD_CALL"),
        (b'{"v": 3, "call": ["ping"], "args": {}}\n', "BAD_CALL"),
        (b'{"v": 3, "call": "look"}\n', "BAD_CALL"),
        (b'{"v": 3, "call": "look", "args": []}\n', "BAD_CALL"),
        (b'{"v": 3, "call": "look", "args": {"job_id": 7}}\n', "BAD_CALL"),
        (b'{"v": 3, "call": "look", "args": {"job_id": "j", "more": 1}}\n', "BAD_CALL"),
        (b'{"v": 3, "call": "wait", "args": {"job_id": "j", "max_s": true}}\n', "BAD_CALL"),
    ],
)
def test_malformed_calls_are_refused(line: bytes, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_request(line)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "line", [b'{"answer": {"pid": "x"}}', b'{"else": 1}', b'{"answer": {}}', b"nonsense"]
)
def test_malformed_answers_are_faults(line: bytes) -> None:
    with pytest.raises(EnvironmentFault) as caught:
        read_info(_read_answer(line))
    assert caught.value.code == "BAD_ANSWER"
    assert json.dumps(caught.value.message)
