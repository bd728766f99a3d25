"""The standalone cluster runs our Python code on its workers, and loses one as it would lose a machine."""

import subprocess
import sys
from pathlib import Path

import pytest

from snapshotter.testing.spark_cluster import start_spark_cluster

PROGRAM = Path(__file__).parent / "programs" / "cluster_job.py"


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.thorough
def test_a_job_survives_the_loss_of_a_worker(tmp_path: Path) -> None:
    """Workers import the packages; a cached table is whole again after one of two workers was killed."""
    with start_spark_cluster(workers=2, memory="600m") as cluster:
        with subprocess.Popen(
            [sys.executable, str(PROGRAM), cluster.master_url, str(tmp_path / "table")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=tmp_path,  # the packages must be found from anywhere, not only from the root of the project
            text=True,
        ) as driver:
            assert driver.stdout is not None
            assert driver.stdout.readline().split() == ["workers", "2", "rows", "1000"]
            cluster.kill_worker(0)
            remaining, _ = driver.communicate("go on\n", timeout=180)
        assert remaining.split() == ["rows", "1000", "delta", "1000"]
        assert driver.returncode == 0
        assert not cluster.workers[0].alive
        assert cluster.workers[1].alive
