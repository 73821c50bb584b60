"""What runs in the host process, beside the JVM: only this room imports `jpype`.

    __main__ → source, sink, provider, plugin → chain, contexts → jvm, *.java

`SourceRecords.java` turns polled records into columns and `RecordReader.java` does the reverse, by the types of
`Columns.java`; `Chain.java` applies the transforms and converters that run in Java, `Beans.java` reads beans.
"""
