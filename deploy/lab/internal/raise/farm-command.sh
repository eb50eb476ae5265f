#!/bin/sh
# The forced command of a farm node: all that the service's key can do here.
#   deploy USER UID   takes a keytab in base64 from standard input, keeps it and gets a ticket with it
#   remove USER       forgets the keytab and the ticket
set -eu
umask 077
keytabs=/etc/krb5-keytabs
realm=$(sed -n 's/^ *default_realm *= *//p' /etc/krb5.conf)

refuse() {
  echo "farm-command: $1" >&2
  exit 2
}

set -f
# shellcheck disable=SC2086 # split on purpose: the words are checked one by one
set -- ${SSH_ORIGINAL_COMMAND:-}
action=${1:-} user=${2:-} uid=${3:-}
case $user in
  '' | [.-]* | *[!A-Za-z0-9._-]*) refuse "no user name" ;;
esac
case $action in
  deploy)
    case $uid in '' | 0* | *[!0-9]*) refuse "no uid" ;; esac
    [ $# -eq 3 ] || refuse "deploy USER UID"
    mkdir -p "$keytabs" /run/user
    draft=$(mktemp "$keytabs/.draft.XXXXXX")
    trap 'rm -f "$draft"' EXIT
    base64 -d >"$draft"
    [ -s "$draft" ] || refuse "no keytab"
    mkdir -p "/run/user/$uid"
    chown "$uid" "$draft" "/run/user/$uid"
    chmod 700 "/run/user/$uid"
    KRB5CCNAME=FILE:/run/user/$uid/krb5cc kinit -k -t "$draft" "$user@$realm"
    chown "$uid" "/run/user/$uid/krb5cc"
    mv "$draft" "$keytabs/$user.keytab"
    echo "$uid" >"$keytabs/$user.uid"
    trap - EXIT
    ;;
  remove)
    [ $# -eq 2 ] || refuse "remove USER"
    if [ -r "$keytabs/$user.uid" ]; then
      rm -f "/run/user/$(cat "$keytabs/$user.uid")/krb5cc"
    fi
    rm -f "$keytabs/$user.keytab" "$keytabs/$user.uid"
    ;;
  *) refuse "deploy or remove" ;;
esac
