"""Strict JSON keeps non-finite numbers, on every interpreter that we travel to."""

from __future__ import annotations

import math

from seatrial.core import strict_json


def test_non_finite_numbers_survive_the_round_trip() -> None:
    text = strict_json.dumps({"loss": [math.nan, math.inf, -math.inf, 0.5]})
    assert text == '{"loss":["nan","inf","-inf",0.5]}'
    values = [strict_json.decode_number(value) for value in strict_json.loads(text)["loss"]]
    assert values[0] is not None and math.isnan(values[0])
    assert values[1:] == [math.inf, -math.inf, 0.5]


def test_a_bare_nan_is_refused() -> None:
    try:
        strict_json.loads('{"loss": NaN}')
    except ValueError as error:
        assert "NaN" in str(error)
    else:
        raise AssertionError("NaN is not strict JSON and was read")


def test_a_boolean_is_no_number() -> None:
    assert strict_json.decode_number(True) is None
    assert strict_json.decode_number("12") is None
    assert strict_json.decode_number(3) == 3.0
