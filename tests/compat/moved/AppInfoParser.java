package org.apache.kafka.common.utils;

/** Answers for plugins of 4.3 and older in a worker of Kafka 4.4, which moved this class. */
public final class AppInfoParser {
    private AppInfoParser() {}

    public static String getVersion() {
        return org.apache.kafka.common.utils.internals.AppInfoParser.getVersion();
    }

    public static String getCommitId() {
        return org.apache.kafka.common.utils.internals.AppInfoParser.getCommitId();
    }
}
