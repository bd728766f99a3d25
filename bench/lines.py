"""JSON lines: what a benchmark prints as it comes, and keeps as raw data where it is told to.

The first line says about a run what a reader of its figures has to know: the machine, the load before, and what was
asked for. So none begins while others are at work, but for ``--busy``.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.measurement import machine, quiet_load

Tell = Callable[..., None]
"""Prints, and keeps, a line of the figures that it is given by name."""


def add_options(parser: ArgumentParser, output: Path | None = None) -> None:
    """``--busy`` and ``--output``, which is ``output`` by default, or none."""
    parser.add_argument("--busy", action="store_true", help="measure although others are at work")
    parser.add_argument("--output", type=Path, default=output, help="a file for what is printed")


def about_run(asked: Namespace) -> dict[str, object]:
    """What is to be known of a run that was ``asked`` for so: machine, load, and that, without what names this
    machine's folders. Ends the program where others are at work."""
    load = quiet_load(busy=asked.busy)
    given = {name: value for name, value in vars(asked).items() if value is not None and name != "busy"}
    plain = {name: value for name, value in given.items() if not isinstance(value, Path)}
    return {**machine(), "load_before": load, **plain}


@contextmanager
def telling(about: dict[str, object], kept: Path | None) -> Iterator[Tell]:
    """Lines of the run that this is ``about``, in the file ``kept`` as well."""
    with ExitStack() as stack:
        file = None if kept is None else stack.enter_context(kept.open("w", encoding="utf-8"))

        def tell(**figures: object) -> None:
            line = json.dumps(figures)
            print(line, flush=True)
            if file is not None:
                print(line, file=file, flush=True)

        tell(about=about)
        yield tell
