load inbox.bash

setup() {
    new_inbox
}

teardown() {
    delete_inbox
}

@test "the mail opens the shop" {
    curl -fsS "$SHOP_URL/sign-up" -d "email=$address"
    found=$(code)
    [ "$(curl -fsS "$SHOP_URL/confirm" -d "email=$address" -d "code=$found")" = "You are in." ]
    found=$(link)
    [ "$(curl -fsS "$found")" = "You are in." ]
}
