#!/bin/sh
while [ "$1" != --cert-name ]; do shift; done
folder=/etc/letsencrypt/live/$2
mkdir -p "$folder"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=mx.$2"     -addext "subjectAltName=DNS:$2,DNS:mx.$2" -keyout "$folder/privkey.pem" -out "$folder/fullchain.pem"
