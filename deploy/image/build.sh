#!/bin/sh
# Builds the image with what is there: docker, podman or buildah. Arguments are those of `docker build`.
set -eu
cd "$(dirname "$0")/../.."

# Docker's format, because that of OCI has no health check.
if docker info > /dev/null 2>&1; then
    exec docker build --tag headrace "$@" .
elif command -v podman > /dev/null; then
    exec podman build --format docker --tag headrace "$@" .
elif command -v buildah > /dev/null; then
    exec buildah bud --layers --format docker --tag headrace "$@" .
fi
echo "make image: no docker that runs, no podman, no buildah; on Debian: apt-get install buildah" >&2
exit 3
