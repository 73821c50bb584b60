"""Java plugins: their jars run unchanged in a host process with a JVM, and look like any other plugin from outside.

    worker:  plugin → connector, task → hosts → process ─┐ wire
    host:    host → hosted, contexts → jvm, *.java      ─┘

`process.py` and `host.py` are the two ends of the connection; `records.java` turns polled records into columns and
`batches.py` makes Arrow arrays of them. `log_lines.py` is the form in which lines of Java's log cross; `beans.java`
reads beans, and `beans.py` names them. Only the host imports `jpype`.
"""
