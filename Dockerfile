# One image for every part of Dutycycle: the command after it says which part runs.

FROM python:3.11.13-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build

# What builds the wheel is locked, too: without isolation nothing unpinned is fetched.
COPY requirements-build.lock pyproject.toml README.md LICENSE ./
RUN pip install --require-hashes --requirement=requirements-build.lock
COPY collectors collectors
COPY streams streams
COPY sinks sinks
COPY dutycycle dutycycle
RUN pip wheel --no-deps --no-build-isolation --wheel-dir=/wheels .

FROM python:3.11.13-slim-bookworm AS installed
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# What is installed beside it, by hash: all that has a default. requirements-collector.lock is for the nodes, an eighth of
# that; requirements-all.lock has every extra (docs/install.md).
ARG LOCK=requirements.lock
COPY requirements.lock requirements-all.lock requirements-collector.lock ./
RUN python -m venv --without-pip /opt/dutycycle \
    && pip --python=/opt/dutycycle install --require-hashes --only-binary=:all: --requirement="${LOCK}"
COPY --from=build /wheels /wheels
RUN pip --python=/opt/dutycycle install --no-deps --no-index /wheels/*.whl
# Streams have loops that numba compiles when they are first imported, and keeps beside them: not in each container anew.
RUN ! /opt/dutycycle/bin/python -c "import numba" || /opt/dutycycle/bin/python -m streams.compile

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
