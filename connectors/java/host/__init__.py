"""Code of the host process, beside the JVM: only this room imports `jpype`.

    __main__ → source, sink, provider, plugin → stage, contexts → jvm, *.java

`SourceRecords.java` turns polled records into columns, and `RecordReader.java` does the reverse, by the types of
`Columns.java`. `JavaStage.java` applies transforms and converters, and `Beans.java` reads beans.
"""
