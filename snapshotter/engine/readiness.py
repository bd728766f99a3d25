"""What is said of a start, until signals are taken; the state is `starting` until then.

Ready is true once a run has its state, watches the signal collection ahead of the stream, and looks at its channels. A
signal that came before is not lost: it is taken then.
"""

from __future__ import annotations

from collections.abc import Sequence

from snapshotter.core.values.progress import Progress
from snapshotter.core.values.requests import Origin
from snapshotter.engine.run import Run
from snapshotter.reporting.status import EngineState
from snapshotter.reporting.views import View
from streaming.namespaces import listed

READY = "ready: signals are taken from now on"


class Readiness:
    """Of one engine, which gets ready once. ``view`` is shown what is being done."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.ready = False

    @property
    def state(self) -> EngineState:
        """Of an engine that is neither ending nor has failed."""
        return EngineState.RUNNING if self.ready else EngineState.STARTING

    def doing(self, what: str) -> None:
        """The start is at this."""
        if not self.ready:
            self._view.doing(what)

    def look(self, run: Run) -> None:
        """Whether a ``run`` takes signals by now, which watches its channels already."""
        if not self.ready and run.started:
            self.reached(loading(run.progress))

    def reached(self, loads: Sequence[str] = ()) -> None:
        """Signals are taken from here on, and these collections are being loaded."""
        if self.ready:
            return
        self.ready = True
        self._view.doing(None)
        if loads:
            self._view.announce(f"loading {len(loads)} collection{'s' * (len(loads) > 1)}: {listed(loads)}")
        self._view.announce(READY)


def loading(progress: Progress) -> Sequence[str]:
    """The collections that a start reads by itself, and has not read to their end."""
    own = (r for r in progress.requests if r.origin in (Origin.INITIAL, Origin.HEAL) and not r.ended)
    return sorted({str(task.namespace) for request in own for task in request.tasks if not task.ended})


def servers(uri: str) -> str:
    """The servers in the address of a MongoDB, without who asks."""
    # A password may hold what ends an address elsewhere.
    return uri.partition("://")[2].partition("?")[0].rpartition("@")[2].partition("/")[0]
