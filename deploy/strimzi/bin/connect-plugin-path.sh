#!/usr/bin/env bash
# Apache's script of this name.
exec connect-plugin-path "$@"
