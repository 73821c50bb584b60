"""The parts of a JVM of Headrace: pinned jars from the cache, and Headrace's own Java, compiled."""
