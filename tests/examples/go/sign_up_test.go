package shop_test

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"testing"
)

func TestTheMailOpensTheShop(t *testing.T) {
	shop, box := os.Getenv("SHOP_URL"), newInbox(t)
	http.PostForm(shop+"/sign-up", url.Values{"email": {box.Address}})

	code := box.waitFor(t, "code").Messages[0].Codes[0].Value
	answer, err := http.PostForm(shop+"/confirm", url.Values{"email": {box.Address}, "code": {code}})
	isOpen(t, answer, err)

	answer, err = http.Get(box.waitFor(t, "link").Messages[0].Links[0].Href)
	isOpen(t, answer, err)
}

func isOpen(t *testing.T, answer *http.Response, err error) {
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := io.ReadAll(answer.Body); string(text) != "You are in.\n" {
		t.Errorf("%s: %s", answer.Status, text)
	}
}
