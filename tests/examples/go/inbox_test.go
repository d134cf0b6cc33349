package shop_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
)

// A fresh private address, deleted after its test; also the type of the service's response.
type inbox struct {
	Address, Token, Reason string
	Messages               []struct {
		Codes, Links []struct{ Value, Href string }
	}
}

func newInbox(t *testing.T) inbox {
	box := inbox{}.ask(t, "POST", `{"private": true}`, "")
	t.Cleanup(func() { box.ask(t, "DELETE", "", "/"+box.Address) })
	return box
}

// waitFor returns a message that has a "code" or a "link".
func (box inbox) waitFor(t *testing.T, has string) inbox {
	found := box.ask(t, "GET", "", "/"+box.Address+"/messages?wait=30&explain=true&has="+has)
	if len(found.Messages) == 0 {
		t.Fatal("no", has, "for", box.Address, found.Reason)
	}
	return found
}

func (box inbox) ask(t *testing.T, method, body, path string) (found inbox) {
	request, _ := http.NewRequest(method, os.Getenv("TMPMAILD_URL")+"/api/v1/addresses"+path, strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer "+box.Token)
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.StatusCode >= 300 {
		t.Fatal(path, response, err)
	}
	json.NewDecoder(response.Body).Decode(&found)
	return found
}
