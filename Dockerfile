# A Kafka Connect worker with everything that it needs inside: it starts without network, but for its Kafka.
#
#   docker build -t headrace .
#   docker run -p 8083:8083 -e CONNECT_BOOTSTRAP_SERVERS=… -e CONNECT_GROUP_ID=… -e CONNECT_CONFIG_STORAGE_TOPIC=… \
#       -e CONNECT_OFFSET_STORAGE_TOPIC=… -e CONNECT_STATUS_STORAGE_TOPIC=… -e CONNECT_KEY_CONVERTER=… \
#       -e CONNECT_VALUE_CONVERTER=… -e CONNECT_REST_ADVERTISED_HOST_NAME=… headrace
#   docker run … headrace standalone connector.properties
#   docker run … --entrypoint tini headrace -- connect-mirror-maker /mm2.properties

FROM python:3.12-slim-bookworm AS wheel

WORKDIR /build
COPY pyproject.toml README.md ./
COPY headrace headrace
COPY config config
COPY connectors connectors
COPY converters converters
COPY plugins plugins
COPY rest rest
COPY worker worker
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .


FROM python:3.12-slim-bookworm

# Debian drops old versions of its packages: what is pinned today cannot be built next month.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/*

# Group 0, so that it also runs under the arbitrary users that some clusters give to containers.
RUN useradd --uid 1001 --gid 0 --create-home --home-dir /home/headrace headrace \
    && install --directory --owner=headrace --group=root --mode=0775 \
        /opt/headrace /opt/headrace/plugins /var/lib/headrace

ENV HEADRACE_CACHE=/opt/headrace/cache \
    PATH=/opt/headrace/venv/bin:$PATH \
    PYTHONUNBUFFERED=1

USER 1001
WORKDIR /var/lib/headrace

# Of the Sparks that Headrace runs on, the one that all tests run with.
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    python -m venv /opt/headrace/venv \
    && pip install --no-cache-dir /wheels/*.whl pyspark==4.2.1

# The archive of classes makes each start of Spark's driver some seconds shorter. It knows the jars by their times, of
# which a layer keeps whole seconds.
RUN python -m headrace.plugins.interop.jvm.jars spark \
    && find /opt/headrace/cache/jars -name '*.jar' -exec touch --date=@1700000000 {} + \
    && python -m headrace.worker.engine.class_archive_writer \
    && python -m headrace.connectors.java.class_path \
    && chmod -R g=u /opt/headrace/cache

ENV CONNECT_PLUGIN_PATH=/opt/headrace/plugins

EXPOSE 8083
# A worker that waits for its Kafka says that it is starting, which is no health either.
HEALTHCHECK --interval=20s --timeout=20s --start-period=120s --retries=3 CMD ["headrace", "health"]

# tini reaps what Spark's processes leave behind, and hands SIGTERM on.
ENTRYPOINT ["tini", "--", "headrace", "worker"]
CMD ["distributed"]
