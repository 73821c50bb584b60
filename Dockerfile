# A Kafka Connect worker with everything that it needs inside: it starts without network, but for its Kafka.
#
#   docker build -t headrace .
#   docker run -p 8083:8083 -e CONNECT_BOOTSTRAP_SERVERS=… -e CONNECT_GROUP_ID=… -e CONNECT_CONFIG_STORAGE_TOPIC=… \
#       -e CONNECT_OFFSET_STORAGE_TOPIC=… -e CONNECT_STATUS_STORAGE_TOPIC=… -e CONNECT_KEY_CONVERTER=… \
#       -e CONNECT_VALUE_CONVERTER=… -e CONNECT_REST_ADVERTISED_HOST_NAME=… headrace
#   docker run … headrace standalone connector.properties
#   docker run … --entrypoint tini headrace -- connect-mirror-maker /mm2.properties
#
# What changes seldom comes first: a change of code makes the last layer anew, of 30 MB.

FROM python:3.12-slim-bookworm AS runtime
# Debian drops old versions of its packages: what is pinned today cannot be built next month.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libnss-wrapper tini \
    && rm -rf /var/cache/apt/* /var/lib/apt/lists/*
# Group 0, so that it also runs under the arbitrary users that some clusters give to containers.
RUN useradd --uid 1001 --gid 0 --no-create-home --home-dir /var/lib/headrace headrace \
    && install --directory --owner=headrace --group=root --mode=0775 \
        /opt/headrace /opt/headrace/cache /opt/headrace/cache/jars /opt/headrace/plugins /var/lib/headrace


FROM python:3.12-slim-bookworm AS requirements
WORKDIR /build
COPY pyproject.toml deploy/image/requirements.py ./
RUN python requirements.py pyproject.toml > requirements.txt


FROM python:3.12-slim-bookworm AS java
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jdk-headless \
    && rm -rf /var/lib/apt/lists/*
# All that plugins may ask of a JRE, without the tools of a JDK. The JVM's own archive is what that of Spark stands on.
COPY deploy/image/java_modules.py /build/
RUN jlink --add-modules "$(python /build/java_modules.py)" --strip-java-debug-attributes --no-header-files --no-man-pages \
        --compress=2 --output /opt/headrace/java \
    && rm -f /opt/headrace/java/lib/security/cacerts \
    && cp --dereference /etc/ssl/certs/java/cacerts /opt/headrace/java/lib/security/cacerts \
    && find /opt/headrace/java -exec touch --no-dereference --date=@1700000000 {} + \
    && /opt/headrace/java/bin/java -Xshare:dump -Xlog:cds=off -Xlog:cds+hashtables=off \
    && find /opt/headrace/java -exec touch --no-dereference --date=@1700000000 {} +


FROM python:3.12-slim-bookworm AS dependencies
ENV PATH=/opt/headrace/venv/bin:$PATH
RUN python -m venv /opt/headrace/venv
COPY --from=requirements /build/requirements.txt /build/
# Of the Sparks that Headrace runs on, the one that all tests run with.
RUN pip install --no-cache-dir -r /build/requirements.txt pyspark==4.2.1
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends binutils \
    && rm -rf /var/lib/apt/lists/*
COPY deploy/image/slim.py /build/
# Groups of Spark's parts to keep, by their names in slim.py: --build-arg KEEP="kubernetes yarn".
ARG KEEP=""
# hadolint ignore=DL3059,SC2086
RUN python /build/slim.py $KEEP \
    && find /opt/headrace/venv/lib/python*/site-packages/pyspark/jars -exec touch --date=@1700000000 {} +


# For each step below the sources that it runs alone: of another change the step is not repeated.
FROM dependencies AS sources
WORKDIR /build
COPY headrace headrace
COPY config config
COPY plugins plugins
COPY worker worker
COPY connectors/__init__.py connectors/
COPY connectors/java connectors/java
COPY deploy/image/needed.py /needed.py
RUN python /needed.py /for/jars headrace.plugins.interop.jvm.jars \
    && python /needed.py /for/host headrace.connectors.java.class_path connectors/java/host \
    && python /needed.py /for/archive headrace.worker.engine.class_archive_writer worker/engine plugins/interop/protobuf


# The jars have one time, because the archive of classes knows them by their times, of which a layer keeps whole seconds.
FROM dependencies AS jars
ENV HEADRACE_CACHE=/opt/headrace/cache \
    JAVA_HOME=/opt/headrace/java
COPY --from=java /opt/headrace/java /opt/headrace/java
WORKDIR /build
COPY --from=sources /for/jars .
RUN python -m headrace.plugins.interop.jvm.jars spark java compiler \
    && find /opt/headrace/cache -exec touch --date=@1700000000 {} + \
    && chmod -R g=u,o=rX /opt/headrace/cache


FROM jars AS host
WORKDIR /host
COPY --from=sources /for/host .
RUN python -m headrace.connectors.java.class_path \
    && mkdir -p /out/jars \
    && cp --preserve=timestamps /opt/headrace/cache/jars/headrace-*.jar /out/jars \
    && chmod -R g=u /out


# The archive of classes makes each start of Spark's driver some seconds shorter, for an eighth of the image:
# --build-arg ARCHIVE=no leaves it out.
FROM jars AS archive
ARG ARCHIVE=yes
WORKDIR /archive
COPY --from=sources /for/archive .
RUN python -c "from headrace.worker.engine.driver_jars import driver_jars; driver_jars()" \
    && if [ "$ARCHIVE" != no ]; then python -m headrace.worker.engine.class_archive_writer --strict; fi \
    && mkdir -p /out/jars \
    && cp --preserve=timestamps /opt/headrace/cache/jars/headrace-*.jar /out/jars \
    && find /opt/headrace/cache -name 'classes-*' -exec mv {} /out ';' \
    && chmod -R g=u /out


FROM dependencies AS code
WORKDIR /build
COPY pyproject.toml README.md ./
COPY headrace headrace
COPY config config
COPY connectors connectors
COPY converters converters
COPY plugins plugins
COPY rest rest
COPY worker worker
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && pip install --no-cache-dir --no-deps --no-index --prefix /out/opt/headrace/venv /wheels/*.whl
# What is in the image, and its licences.
COPY --from=runtime /var/lib/dpkg /debian
COPY --from=java /opt/headrace/java /opt/headrace/java
COPY --from=jars /opt/headrace/cache /opt/headrace/cache
COPY --from=host /out/jars /opt/headrace/cache/jars
COPY --from=archive /out/jars /opt/headrace/cache/jars
COPY deploy/image/bill.py deploy/image/
RUN python deploy/image/bill.py /out/opt/headrace/venv/lib/python*/site-packages --output /out/opt/headrace/sbom \
        --java /opt/headrace/java --cache /opt/headrace/cache --debian /debian


FROM runtime

COPY --from=java /opt/headrace/java /opt/headrace/java
COPY --from=dependencies /opt/headrace/venv /opt/headrace/venv
COPY --from=jars --chown=1001:0 /opt/headrace/cache /opt/headrace/cache
COPY --from=archive --chown=1001:0 /out /opt/headrace/cache
COPY --from=host --chown=1001:0 /out /opt/headrace/cache
COPY --from=code /out/ /

ENV CONNECT_PLUGIN_PATH=/opt/headrace/plugins \
    HEADRACE_CACHE=/opt/headrace/cache \
    HOME=/var/lib/headrace \
    JAVA_HOME=/opt/headrace/java \
    LANG=C.UTF-8 \
    PATH=/opt/headrace/venv/bin:/opt/headrace/java/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

USER 1001
WORKDIR /var/lib/headrace

EXPOSE 8083
# It asks the worker by its own properties, also connect-mirror-maker. One that waits for its Kafka is no healthy one.
HEALTHCHECK --interval=20s --timeout=20s --start-period=120s --retries=3 CMD ["headrace", "health", "--running"]

# tini reaps what Spark's processes leave behind, and hands SIGTERM on.
ENTRYPOINT ["tini", "--", "headrace", "worker"]
CMD ["distributed"]
