# Sourced by the scripts beside it: if the log4j file that KAFKA_LOG4J_OPTS names has a file appender, the log goes to
# the appender's file, as Apache's does, and standard output has what plugins print. What else that file says is not
# read.
# shellcheck shell=bash
config="$(sed -n -E 's/.*-Dlog4j2?\.configuration(File)?=(file:)?([^[:space:]"]+).*/\3/p' <<< "${KAFKA_LOG4J_OPTS:-}")"
if [ -n "$config" ] && [ -r "$config" ]; then
    key='(log4j\.appender\.[^.]+\.File|appender\.[^.]+\.fileName|fileName)'
    file="$(sed -n -E "s/^[[:space:]]*$key[[:space:]]*[=:][[:space:]]*\"?([^\"\$]*[^\"\$[:space:]])\"?[[:space:]]*\$/\2/p" \
        "$config" | head -n 1)"
    if [ -n "$file" ]; then
        unset KAFKA_LOG4J_OPTS
        export HEADRACE_LOG_FILE="$file"
    fi
fi
