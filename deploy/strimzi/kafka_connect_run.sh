#!/usr/bin/env bash
# The command that Strimzi gives to the containers of KafkaConnect and KafkaMirrorMaker2.
set -euo pipefail

KAFKA_HOME="${KAFKA_HOME:-/opt/kafka}"
given="$KAFKA_HOME/custom-config/kafka-connect.properties"
file="${STRIMZI_CONNECT_FILE:-/tmp/strimzi-connect.properties}"

if [ ! -r "$given" ]; then
    echo "kafka_connect_run.sh: $given cannot be read; Strimzi 0.46 and newer mount it there" >&2
    exit 2
fi
if [ "${STRIMZI_JMX_ENABLED:-false}" = true ]; then
    echo "kafka_connect_run.sh: the worker has no JMX; remove jmxOptions and read GET /metrics on port 8083" >&2
    exit 2
fi

ADVERTISED_HOSTNAME="${ADVERTISED_HOSTNAME:-$(hostname -f | cut -d . -f 1-4)}"
export ADVERTISED_HOSTNAME
# Strimzi's /tmp has 5 MiB: what Spark writes goes elsewhere.
export TMPDIR="${TMPDIR:-/var/lib/headrace/tmp}"
mkdir -p "$TMPDIR"

# Only the owner may read it: it may hold a login that was given as it is.
umask 077
cp "$given" "$file"
add() { printf '\n%s' "$1=$2" >> "$file"; }
has() { grep -q "^[[:space:]]*$1[[:space:]]*[=:]" "$given"; }

reporter='^metric\.reporters=.*io\.strimzi\.kafka\.metrics'
if grep -q "$reporter" "$given" && ! has 'metrics\.names'; then
    add metrics.names strimzi-reporter
fi
# Strimzi's PodMonitors read either exporter at this port.
if { [ "${KAFKA_CONNECT_JMX_EXPORTER_ENABLED:-false}" = true ] || grep -q "$reporter" "$given"; } \
    && ! has 'metrics\.listeners'; then
    add metrics.listeners "http://:9404"
fi
if [[ "${KAFKA_HEAP_OPTS:-}" =~ -Xmx([0-9]+[kKmMgG]) ]] && ! has 'spark\.driver\.memory'; then
    add spark.driver.memory "${BASH_REMATCH[1],,}"
fi
options="${KAFKA_JVM_PERFORMANCE_OPTS:-} ${STRIMZI_JAVA_SYSTEM_PROPERTIES:-}"
if [ -n "${options// /}" ] && ! has 'spark\.driver\.extraJavaOptions'; then
    add spark.driver.extraJavaOptions "$options"
fi
if [ "${STRIMZI_TRACING:-}" = opentelemetry ] && [ "${OTEL_TRACES_EXPORTER:-otlp}" = otlp ] \
    && ! has 'otel\.exporter\.otlp\.endpoint'; then
    add otel.exporter.otlp.endpoint "${OTEL_EXPORTER_OTLP_ENDPOINT:-http://localhost:4318}"
fi
# They have been taken over: the worker need not warn of them.
unset KAFKA_HEAP_OPTS KAFKA_JVM_PERFORMANCE_OPTS STRIMZI_JAVA_SYSTEM_PROPERTIES STRIMZI_DYNAMIC_HEAP_PERCENTAGE

log="$KAFKA_HOME/custom-config/log4j2.properties"
if [ -r "$log" ] && [ -z "${CONNECT_LOG4J_ROOT_LOGLEVEL:-}" ]; then
    level="$(sed -n 's/^[[:space:]]*rootLogger\.level[[:space:]]*=[[:space:]]*\([A-Za-z]*\).*/\1/p' "$log" | tail -n 1)"
    if [ -n "$level" ]; then export CONNECT_LOG4J_ROOT_LOGLEVEL="${level^^}"; fi
fi

exec tini -w -e 143 -- "$KAFKA_HOME/bin/connect-distributed.sh" "$file"
