#!/usr/bin/env bash
# Apache's script of this name; the process stays the same, so that signals reach the worker.
exec connect-distributed "$@"
