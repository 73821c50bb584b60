"""Java plugins: their jars run unchanged in a host process with a JVM, and look like any other plugin from outside.

    worker:  plugin → connector, task, parts → hosts → process ─┐ wire
    host:    host → hosted*, contexts → jvm, *.java            ─┘

`process.py` and `host.py` are the two ends of the connection; `records.java` turns polled records into columns and
`batches.py` makes Arrow arrays of them, `sink_batches.py` and `sinks.java` do the reverse. `chain.java` applies the
transforms and converters that run in Java (`chain.py`, `hosted_chain.py`). `log_lines.py` is the form in which lines of
Java's log cross; `beans.java` reads beans, and `beans.py` names them. Only the host imports `jpype`.
"""
