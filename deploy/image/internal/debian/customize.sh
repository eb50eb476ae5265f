#!/bin/sh
# Runs in mmdebstrap, with the new root's folder as $1, after its packages are installed.
set -eu
cd "$1"

# Debian 12 has the docker client in one package with the engine, which is ten times as much with what it needs. Only the
# client goes on; the package's description stands where scanners look for those that were not installed whole.
APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get -q -o APT::Sandbox::User=root download docker.io >&2
dpkg-deb --fsys-tarfile docker.io_*.deb | tar -x ./usr/bin/docker ./usr/share/doc/docker.io/copyright
mkdir -p var/lib/dpkg/status.d
dpkg-deb --field docker.io_*.deb >var/lib/dpkg/status.d/docker.io
rm docker.io_*.deb

# A library that is missing would show at the first call only.
chroot . /usr/bin/docker --version >&2
chroot . /usr/bin/kadmin -h 2>&1 | grep -q '^Usage: kadmin'

echo 'nonroot:x:65532:65532:nonroot:/var/lib/config-server:/usr/sbin/nologin' >>etc/passwd
echo 'nonroot:x:65532:' >>etc/group
