# leafd's image: built from this tree in one stage, and only what runs in the other.
#
#   docker build -t leafd:local --build-arg COMMIT="$(git rev-parse --short=12 HEAD)" .
#
# BASE_IMAGE is Debian 12 or 13; where no registry can be reached, scripts/compose-test makes one
# with debootstrap. Packages come from the sources of the base image, and C-Raft from the backports
# of the same mirror (scripts/setup). Syntax: what Docker 20.10's classic builder knows.

ARG BASE_IMAGE=debian:bookworm-slim

FROM ${BASE_IMAGE} AS build
WORKDIR /leafd
COPY scripts/setup scripts/check-raft-version scripts/
RUN scripts/setup run
COPY . .
# The tree has no .git here (.dockerignore): the commit that leafd shows must be given. What is
# stripped is not made: DEBUG= takes a third of the compiler's time.
ARG COMMIT=
RUN make -j"$(nproc)" DEBUG= COMMIT="$COMMIT" build/release/leafd && \
    strip -o leafd build/release/leafd
# The packages of the libraries that the binary asks for, by the names of this Debian.
RUN ldd leafd | awk '$3 ~ "^/" { n = split($3, path, "/"); print "*/" path[n] }' | \
    xargs dpkg-query -S | cut -d: -f1 | sort -u >packages && \
    dpkg-query -W -f '${Version}' libraft-dev >raft-version

FROM ${BASE_IMAGE}
COPY --from=build /leafd/leafd /usr/local/bin/leafd
COPY --from=build /leafd/packages /leafd/raft-version /leafd/VERSION /usr/local/share/leafd/
COPY scripts/compose/healthcheck /usr/local/bin/leafd-healthcheck
COPY scripts/sbom /usr/local/share/leafd/make-sbom
# Whoever passes on the image passes these on with it; Debian has the texts of the (L)GPL in it.
COPY LICENSE NOTICE /usr/local/share/doc/leafd/
# The user's number is fixed, so that volumes fit every build. Directories are made here so that a
# new volume takes over their owner and mode. The last lines: what is in the image, as SPDX; and
# nothing that leafd needs is missing.
ARG COMMIT=
RUN apt-get update && \
    xargs apt-get install -y --no-install-recommends tzdata </usr/local/share/leafd/packages && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log && \
    groupadd --gid 10001 leafd && \
    useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent \
        --shell /usr/sbin/nologin leafd && \
    install -d -o leafd -g leafd -m 0700 /var/lib/leafd /run/leafd && \
    cd /usr/local/share/leafd && \
    sh make-sbom "$(cat VERSION)" "$COMMIT" "$(cat raft-version)" packages >sbom.spdx.json && \
    rm make-sbom && \
    leafd --version
USER 10001:10001
WORKDIR /
# Inside a container 127.0.0.1 would be reachable by nobody; what is published decides who comes in.
ENV LEAFD_HTTP_LISTEN=0.0.0.0:8080
EXPOSE 8080 7081
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 CMD ["leafd-healthcheck"]
ENTRYPOINT ["leafd"]

LABEL org.opencontainers.image.title="leafd" \
      org.opencontainers.image.description="Unique 64-bit ids over HTTP, replicated by Raft" \
      org.opencontainers.image.revision="${COMMIT}"
