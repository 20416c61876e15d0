# One image for every part of Dutycycle: the command after it says which part runs.

FROM python:3.11.13-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build

# The lock of everything that runs is checked by hash here; the next stage takes what its parts need.
COPY requirements.lock ./
RUN pip wheel --require-hashes --only-binary=:all: --wheel-dir=/wheels --requirement=requirements.lock

COPY pyproject.toml README.md LICENSE ./
COPY collectors collectors
COPY streams streams
COPY sinks sinks
COPY dutycycle dutycycle
RUN pip install --no-index --find-links=/wheels --upgrade setuptools \
    && pip wheel --no-deps --no-build-isolation --wheel-dir=/wheels .

FROM build AS installed
# `all` has every part of the pipeline; a node's collector alone is less than half of it: --build-arg EXTRAS=collector
ARG EXTRAS=all
RUN python -m venv /opt/dutycycle \
    && /opt/dutycycle/bin/pip install --no-index --find-links=/wheels "dutycycle[${EXTRAS}]"
# Streams have loops that numba compiles when they are first imported, and keeps beside them: not in each container anew.
RUN ! /opt/dutycycle/bin/python -c "import numba" || /opt/dutycycle/bin/python -c "import streams.topology"

FROM python:3.11.13-slim-bookworm
LABEL org.opencontainers.image.title="Dutycycle" \
      org.opencontainers.image.licenses="Apache-2.0"

# By number, so that Kubernetes can see that it is not root. It owns the one folder that is written to.
RUN groupadd --gid 10001 dutycycle \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/dutycycle dutycycle \
    && install --directory --owner=10001 --group=10001 /var/lib/dutycycle
COPY --from=installed /opt/dutycycle /opt/dutycycle
ENV PATH=/opt/dutycycle/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/var/lib/dutycycle
USER 10001:10001
WORKDIR /var/lib/dutycycle
ENTRYPOINT ["dutycycle"]
CMD ["--help"]
