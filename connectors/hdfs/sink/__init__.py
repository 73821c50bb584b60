"""The sinks: topics into partitioned files, under the names of Confluent's connectors."""
