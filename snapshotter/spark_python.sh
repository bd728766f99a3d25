#!/bin/sh
# The Python that Spark starts: see spark_python.py. Spark's own archives are taken off its path.
set -f
rest=
IFS=:
for entry in $PYTHONPATH; do
    case $entry in
        */pyspark.zip | */py4j-*-src.zip | */spark-core_*.jar) ;;
        *) rest=${rest:+$rest:}$entry ;;
    esac
done
PYTHONPATH=$rest
export PYTHONPATH
exec "${PYSPARK_INTERPRETER:-python3}" "$@"
