// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

const addressList = `{"kind":"AddressList","apiVersion":"alioth.dev/v1alpha1","metadata":{"resourceVersion":"7"},"items":[
	{"metadata":{"name":"own"},"spec":{"node":"node-1","vpc":"blue"}},
	{"metadata":{"name":"own-elsewhere"},"spec":{"node":"node-1","vpc":"red"}},
	{"metadata":{"name":"foreign"},"spec":{"node":"node-2","vpc":"blue"}}]}`

// TestFirstLists_Holder_LabListsAndServerWatches: of Addresses they are shown their own.
func TestFirstLists_Holder_LabListsAndServerWatches(t *testing.T) {
	const path = "/apis/alioth.dev/v1alpha1/addresses"
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		if r.URL.Query().Get("watch") == "true" {
			fmt.Fprintln(w, "from the API server")
			return
		}
		fmt.Fprint(w, addressList)
	}))
	defer server.Close()
	lists, err := NewFirstLists(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	holder := &http.Client{Transport: lists.Wrap("node-1")(http.DefaultTransport)}
	ask := func(query string) string {
		t.Helper()
		response, err := holder.Get(server.URL + path + "?" + query)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	expect := func(what, got string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			before, rest, found := strings.Cut(got, want)
			if !found || strings.Contains(before, `"name":`) {
				t.Fatalf("%s: %s\nwant %s", what, got, wants)
			}
			got = rest
		}
		if strings.Contains(got, `"name":`) {
			t.Errorf("%s: more than %s: %s", what, wants, got)
		}
	}
	const stream = "fieldSelector=spec.vpc%3Dblue&watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	expect("a list", ask("fieldSelector=spec.vpc%3Dblue&resourceVersion=5"), `"name":"own"`, `"resourceVersion":"7"`)
	expect("a list", ask("fieldSelector=spec.node%3Dnode-1&resourceVersion=5"), `"name":"own"`, `"name":"own-elsewhere"`)
	expect("a stream", ask(stream), `"ADDED"`, `"name":"own"`, `"BOOKMARK"`, `"7"`, "initial-events-end", "from the API server")
	expect("the same stream again", ask(stream), "from the API server")
	expect("a watch", ask("fieldSelector=spec.vpc%3Dblue&watch=true&resourceVersion=9"), "from the API server")
	expect("a list of the present state", ask("fieldSelector=spec.node%3Dnode-1"), `"name":"own"`, `"name":"own-elsewhere"`, `"name":"foreign"`)
	want := []string{
		path + "?continue=&limit=5000",
		path + "?fieldSelector=spec.vpc%3Dblue&resourceVersion=7&watch=true",
		path + "?" + stream,
		path + "?fieldSelector=spec.vpc%3Dblue&watch=true&resourceVersion=9",
		path + "?fieldSelector=spec.node%3Dnode-1",
	}
	if strings.Join(asked, "\n") != strings.Join(want, "\n") {
		t.Errorf("the API server was asked for\n%s\nwant\n%s", strings.Join(asked, "\n"), strings.Join(want, "\n"))
	}
}
