"""How Java is started for tests."""

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
"""Most of a short life is a cold JVM: its second compiler took a quarter of its time. Without a size of its own, the
code cache of the first one alone is full after a minute."""
