# The image of config-server, in two variants:
#
#   docker build --target plain -t dguailab/config-server:VERSION        --build-arg VERSION=VERSION .
#   docker build --target tools -t dguailab/config-server:VERSION-tools  --build-arg VERSION=VERSION .
#
# "make image" builds both without Docker. It reads here how they are run (LABEL, ENV, USER ...), and makes their files itself.
#
# plain is the program and nothing else. tools adds what two features call: the docker client, which loads saved
# images into a node's engine, and kadmin, which makes Kerberos principals. SSH needs no program in either.

FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
ARG TARGETOS
ARG TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags="-s -w -X main.version=$VERSION" -o /out/usr/local/bin/config-server ./cmd/config-server
# The few folders that a container without a mount would miss: scratch has none and cannot make any.
RUN install -d -m 1777 /out/tmp && install -d -m 0700 -o 65532 -g 65532 /out/var/lib/config-server
# Two users for the one variant that has no Debian.
RUN install -d /users/etc \
    && printf '%s\n' root:x:0:0:root:/root:/usr/sbin/nologin nonroot:x:65532:65532:nonroot:/var/lib/config-server:/usr/sbin/nologin >/users/etc/passwd \
    && printf '%s\n' root:x:0: nonroot:x:65532: >/users/etc/group


FROM debian:bookworm-slim AS client
# Debian 12 ships client and engine in one package; only the client goes on.
RUN apt-get update && apt-get install -y --no-install-recommends docker.io


FROM debian:bookworm-slim AS tools
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates krb5-user \
    && rm -rf /var/lib/apt/lists/* /var/cache/debconf/* /var/log/* \
    && groupadd --gid 65532 nonroot && useradd --uid 65532 --gid 65532 --home-dir /var/lib/config-server --no-create-home --shell /usr/sbin/nologin nonroot
COPY --from=client /usr/bin/docker /usr/bin/docker
COPY --from=build /out/ /
ARG VERSION=unknown
LABEL org.opencontainers.image.title="config-server (tools)" \
      org.opencontainers.image.description="Accounts, homes and GPU workspaces of a farm, with the docker and Kerberos clients" \
      org.opencontainers.image.version="$VERSION"
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    STATE_DIR=/var/lib/config-server
WORKDIR /var/lib/config-server
# The chart runs the container as the uid to which the share's files belong, which may be 0.
USER 65532:65532
EXPOSE 8000
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/config-server"]
CMD ["serve"]


FROM scratch AS plain
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /users/ /
COPY --from=build /out/ /
ARG VERSION=unknown
LABEL org.opencontainers.image.title="config-server" \
      org.opencontainers.image.description="Accounts, homes and GPU workspaces of a farm" \
      org.opencontainers.image.version="$VERSION"
ENV STATE_DIR=/var/lib/config-server
WORKDIR /var/lib/config-server
USER 65532:65532
EXPOSE 8000
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/config-server"]
CMD ["serve"]
