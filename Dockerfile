# One image for `zaplake serve`, `zaplake collect` and the other commands; compose.yaml chooses.
FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements.lock pyproject.toml README.md LICENSE ./
RUN python -m venv /opt/zaplake \
 && /opt/zaplake/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY asgi asgi
COPY collector collector
COPY contracts contracts
COPY ingest ingest
COPY migrations migrations
COPY outbox outbox
COPY simulator simulator
COPY zaplake zaplake
RUN /opt/zaplake/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.13-slim
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/zaplake zaplake
COPY --from=build /opt/zaplake /opt/zaplake
ENV PATH=/opt/zaplake/bin:$PATH PYTHONUNBUFFERED=1 ZAPLAKE_DATA_DIR=/var/lib/zaplake
USER zaplake
WORKDIR /var/lib/zaplake
STOPSIGNAL SIGTERM
ENTRYPOINT ["zaplake"]
CMD ["--help"]
