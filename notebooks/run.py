"""Executes the notebooks from top to bottom, in a fresh kernel of this very Python.

    python -m notebooks.run [1 3]    # execute all (or some, by number), each in its own, and store their outputs

The kernel is started by ``ipykernel`` itself, so no kernel has to be registered, and none that is registered is taken.
What Java says on the kernel's standard error goes to this process's, and not into the notebook.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import run_sync
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).parent
NOTEBOOKS = tuple(sorted(FOLDER.glob("[0-9]_*.ipynb")))
CELL_SECONDS = 240
_KERNEL_OPTIONS = ["--IPKernelApp.capture_fd_output=False", "--HistoryManager.enabled=False"]


def execute(*paths: Path) -> list[NotebookNode]:
    """The notebooks with the outputs of a run, one after the other in one kernel, where each finds no names of the one
    before. Raises CellExecutionError, which shows the cell and what it raised."""
    with TemporaryDirectory(prefix="notebook-") as folder:
        kernel = AsyncKernelManager(
            kernel_name="python3",
            kernel_spec_manager=KernelSpecManager(kernel_dirs=[]),
            connection_file=str(Path(folder) / "kernel.json"),
            transport="ipc",  # no port is opened
        )
        try:
            return [_run(kernel, path) for path in paths]
        finally:
            if kernel.has_kernel:
                run_sync(kernel.shutdown_kernel)(now=True)


def _run(kernel: AsyncKernelManager, path: Path) -> NotebookNode:
    notebook = nbformat.read(path, as_version=4)
    if kernel.has_kernel:
        forget = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("%reset -f")])
        _execute(kernel, forget)
    _execute(kernel, notebook)
    return notebook


def _execute(kernel: AsyncKernelManager, notebook: NotebookNode) -> None:
    client = NotebookClient(
        notebook,
        km=kernel,
        timeout=CELL_SECONDS,
        extra_arguments=_KERNEL_OPTIONS,
        record_timing=False,
        resources={"metadata": {"path": str(FOLDER)}},
    )
    try:
        client.execute(cleanup_kc=False, env=_environment())  # the kernel goes on
    finally:
        if client.kc is not None:
            client.kc.stop_channels()


def _environment() -> dict[str, str]:
    """A run is over before Java's second compiler has paid for itself; without it Java would also keep less room."""
    given = os.environ.get("JAVA_TOOL_OPTIONS", "")
    quick = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
    return {**os.environ, "JAVA_TOOL_OPTIONS": f"{given} {quick}".strip()}


def store(notebook: NotebookNode, path: Path) -> None:
    """Without what only says by whom and when it was run, so that two runs differ in their results alone."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    nbformat.validate(notebook)
    nbformat.write(notebook, path)


def main(numbers: Sequence[str]) -> None:
    for path in NOTEBOOKS:
        if numbers and path.name[0] not in numbers:
            continue
        started = time.monotonic()
        (notebook,) = execute(path)
        store(notebook, path)
        seconds, size = time.monotonic() - started, path.stat().st_size
        print(f"{path.name}: {seconds:.0f} s, {size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
