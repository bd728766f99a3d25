"""The command line as an application of Spark's: what ``spark-submit`` and Spark's operator for Kubernetes start.

    spark-submit deploy/engine.py run -c shop.toml

Its exit code is that of the command, and so that of Spark's driver.
"""

from snapshotter.cli import main

if __name__ == "__main__":
    main()
