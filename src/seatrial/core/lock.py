"""Locks: their values, their terms, how they drift and how they loosen."""

from __future__ import annotations

from seatrial.core.lock_drift import CONTEXT, KINDS, Drift, drift
from seatrial.core.lock_loosening import Loosening, is_as_strict, loosened
from seatrial.core.lock_terms import terms_of
from seatrial.core.lock_values import MAX_EARLIER, SCHEMA, Earlier, Lock, case_sha256, hash_of

__all__ = [
    "CONTEXT",
    "KINDS",
    "MAX_EARLIER",
    "SCHEMA",
    "Drift",
    "Earlier",
    "Lock",
    "Loosening",
    "case_sha256",
    "drift",
    "hash_of",
    "is_as_strict",
    "loosened",
    "terms_of",
]
