"""The end of a demo, as tests and pictures show it."""

from __future__ import annotations

from pathlib import Path

from snapshotter.demo.summary import Pace, Summary

SUMMARY = Summary(
    documents=200_321,
    rows=195_000,
    superseded=5_000,
    chunks=11,
    seconds=12.5,
    changes=7_100,
    lag_max_seconds=3,
    equal=True,
    pace=Pace(4.1, 23_809.5),
    replay=Path("/tmp/snapshotter-demo-abcdefgh.html"),
)
