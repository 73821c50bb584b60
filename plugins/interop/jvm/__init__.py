"""What a JVM of Headrace is made of: pinned jars from the cache, and Headrace's own Java, compiled."""
