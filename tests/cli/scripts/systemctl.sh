#!/bin/sh
# Prints the output of systemctl for a unit whose state is in the file unit.env next to this one.
. "$(dirname "$0")/unit.env"
[ "$(id -u)" = "$user" ] || exit 1
case "$*" in
cat*) echo "LoadCredential=cert.pem:/etc/pem/cert.pem" ;;
list-units*) printf '%s' "$instances" ;;
*smtp.socket) echo "ActiveState=$socket" ;;
*http.socket) echo ActiveState=inactive ;;
*)
    printf 'NRestarts=7\nExecMainStatus=1\nResult=exit-code\nLoadState=%s\nActiveState=%s\n' "$load" "$active"
    printf 'SubState=dead\nDynamicUser=yes\nLogNamespace=%s\n' "$namespace"
    echo 'Environment="TMPMAILD_HTTP__PUBLIC_URL=https://x.example/a b" PATH=/bin TMPMAILD_LOG__LEVEL=debug'
    ;;
esac
