#!/bin/sh
for word in "$@"; do
    case $word in ./*) exec /usr/bin/apt-get "$@" ;; update|install|certbot|-*) ;; *) dpkg --status "$word" > /dev/null || exit 1 ;; esac
done
