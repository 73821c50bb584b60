# Sourced by the scripts beside it: of the log4j file that KAFKA_LOG4J_OPTS names, the root logger's level is taken, and
# the log goes to the file of a file appender, as Apache's does; standard output then has what plugins print. What else
# that file says is not read.
# shellcheck shell=bash
config="$(sed -n -E 's/.*-Dlog4j2?\.configuration(File)?=(file:)?([^[:space:]"]+).*/\3/p' <<< "${KAFKA_LOG4J_OPTS:-}")"
if [ -n "$config" ] && [ -r "$config" ]; then
    key='(log4j\.appender\.[^.]+\.File|appender\.[^.]+\.fileName|fileName)'
    file="$(sed -n -E "s/^[[:space:]]*$key[[:space:]]*[=:][[:space:]]*\"?([^\"\$]*[^\"\$[:space:]])\"?[[:space:]]*\$/\2/p" \
        "$config" | head -n 1)"
    key='(log4j\.rootLogger|rootLogger\.level)'
    level="$(sed -n -E "s/^[[:space:]]*$key[[:space:]]*=[[:space:]]*([A-Za-z]+).*/\2/p" "$config" | tail -n 1)"
    if [ -z "$level" ]; then # YAML
        of_root='/^[[:space:]]*Root:/,/level:/ s/^[-[:space:]]*level:[[:space:]]*"?([A-Za-z]+).*/\1/p'
        level="$(sed -n -E "$of_root" "$config" | head -n 1)"
    fi
    if [ -n "$file$level" ]; then unset KAFKA_LOG4J_OPTS; fi
    if [ -n "$file" ]; then export HEADRACE_LOG_FILE="$file"; fi
    if [ -n "$level" ]; then export CONNECT_LOG4J_ROOT_LOGLEVEL="${CONNECT_LOG4J_ROOT_LOGLEVEL:-${level^^}}"; fi
fi
