#!/usr/bin/env bash
# Apache's script of this name; the process stays the same, so that signals reach the worker.
. "$(dirname "$(readlink -f "$0")")/log4j-file.sh"
exec connect-distributed "$@"
