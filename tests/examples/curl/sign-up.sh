#!/bin/sh
# Sign up at the shop at $SHOP_URL with a fresh address of the service at $TMPMAILD_URL.
set -eu

inbox=$(curl -fsS "$TMPMAILD_URL/api/v1/addresses" --json '{"private": true}')
address=$(printf %s "$inbox" | jq -r .address)
token=$(printf %s "$inbox" | jq -r .token)
api="$TMPMAILD_URL/api/v1/addresses/$address"
trap 'curl -fsS -X DELETE "$api" -H "Authorization: Bearer $token"' EXIT

curl -fsS -o form.html "$SHOP_URL/sign-up" --data-urlencode "email=$address"
code=$(curl -fsS "$api/messages?wait=50&has=code" -H "Authorization: Bearer $token" |
    jq -er '.messages[0].codes[0].value')
curl -fsS "$SHOP_URL/confirm" --data-urlencode "email=$address" --data-urlencode "code=$code"
