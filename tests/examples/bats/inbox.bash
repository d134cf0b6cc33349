# A fresh private inbox: new_inbox in setup(), delete_inbox in teardown(). Needs curl and jq.

new_inbox() {
    inbox=$(curl -fsS "$TMPMAILD_URL/api/v1/addresses" --json '{"private": true}')
    address=$(jq -r .address <<<"$inbox")
}

delete_inbox() {
    ask "" -X DELETE
}

code() {
    wait_for code '.codes[0].value'
}

link() {
    wait_for link '.links[0].href'
}

# wait_for HAS FILTER: print the result of a jq filter for a message that has a code or a link.
wait_for() {
    local found
    found=$(ask "/messages?wait=30&explain=true&has=$1")
    jq -er ".messages[0] | $2" <<<"$found" || {
        echo "no $1 for $address: $(jq -r .reason <<<"$found")" >&2
        return 1
    }
}

ask() {
    curl -fsS "$TMPMAILD_URL/api/v1/addresses/$address$1" -H "Authorization: Bearer $(jq -r .token <<<"$inbox")" "${@:2}"
}
