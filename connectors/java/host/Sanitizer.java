package org.apache.kafka.common.utils.internals;

/** Stands where Kafka 4.4 has it, for plugins that were built with 4.4. */
public class Sanitizer extends org.apache.kafka.common.utils.Sanitizer {}
