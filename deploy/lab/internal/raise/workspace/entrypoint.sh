#!/bin/sh
# Makes the workspace's user as the environment says, takes the password's hash from the account's
# Secret, and starts the servers. It ends when sshd ends.
set -eu

# The primary group first: name:gid,name:gid,...
supplementary=
old_ifs=$IFS
IFS=,
for pair in ${USER_GROUPS:-$USER_GROUP:$TARGET_GID}; do
  name=${pair%:*} gid=${pair##*:}
  getent group "$gid" >/dev/null || groupadd --force --gid "$gid" "$name"
  [ "$gid" = "$TARGET_GID" ] || supplementary=${supplementary:+$supplementary,}$gid
done
IFS=$old_ifs
getent passwd "$TARGET_UID" >/dev/null ||
  useradd --badname --no-create-home --uid "$TARGET_UID" --gid "$TARGET_GID" ${supplementary:+--groups "$supplementary"} \
    --home-dir "$HOME" --shell "$SHELL" "$USER" 2>/dev/null

# The file has the hash alone, or the whole line of shadow. It goes by a pipe: arguments are seen by others.
secret=${ACCOUNT_SECRET_FILE:-/run/ailab/account/shadow}
if [ -r "$secret" ]; then
  line=$(head -n 1 "$secret")
  case $line in *:*) line=${line#*:} line=${line%%:*} ;; esac
  printf '%s:%s\n' "$USER" "$line" | chpasswd --encrypted
fi

ssh-keygen -A >/dev/null
mkdir -p /run/sshd
setpriv --reuid "$TARGET_UID" --regid "$TARGET_GID" --init-groups /usr/local/bin/web 8888 "notebook of $USER" &
exec /usr/sbin/sshd -D -e
