"""What runs in the host process, beside the JVM: only this room imports `jpype`.

    __main__ → source, sink, provider, plugin → chain, contexts → jvm, *.java

`records.java` turns polled records into columns and `sinks.java` does the reverse, by the types of `columns.java`;
`chain.java` applies the transforms and converters that run in Java, `beans.java` reads beans.
"""
