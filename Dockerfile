# The first stage has a compiler and builds midge into a virtual environment; the second has only that.
FROM python:3.13-bookworm AS build
WORKDIR /src
COPY . .
# `--build-arg EXTRAS=[server,recorder]` adds what recording needs.
ARG EXTRAS=[server]
RUN python -m venv /opt/midge \
    && /opt/midge/bin/python -m pip install --no-cache-dir --constraint constraints.txt ".$EXTRAS"

FROM python:3.13-slim-bookworm
LABEL org.opencontainers.image.title="midge" \
      org.opencontainers.image.description="A NATS server in Python" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --system --gid 10001 midge \
    && useradd --system --uid 10001 --gid midge --no-create-home --shell /usr/sbin/nologin midge \
    && install --directory --owner=midge --group=midge --mode=0750 /var/lib/midge
COPY --from=build /opt/midge /opt/midge
# Every setting at its default; mount your own file over it.
COPY config.example.toml /etc/midge/config.toml
ENV PATH=/opt/midge/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 4222 8222
# A server that is well greets every connection with INFO.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 \
    CMD ["python", "-c", "import socket, sys; sys.exit(socket.create_connection(('127.0.0.1', 4222), 2).recv(5) != b'INFO ')"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["midge-server"]
CMD ["-a", "0.0.0.0", "-c", "/etc/midge/config.toml"]
