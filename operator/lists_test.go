// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"net/http"
	"testing"
)

// TestFirstListsShowThePresentState, and requests of other sorts are sent as they are.
func TestFirstListsShowThePresentState(t *testing.T) {
	const path = "https://api.example/apis/alioth.dev/v1alpha1/addresses"
	for name, c := range map[string]struct{ method, asked, want string }{
		"a first list":                   {http.MethodGet, "?limit=500&resourceVersion=0", ""},
		"a first list with a selector":   {http.MethodGet, "?fieldSelector=spec.vpc%3Dblue&limit=500&resourceVersion=0", "?fieldSelector=spec.vpc%3Dblue"},
		"a list after a lost connection": {http.MethodGet, "?resourceVersion=17", "?resourceVersion=17"},
		"a list of the present state":    {http.MethodGet, "?limit=10", "?limit=10"},
		"a watch":                        {http.MethodGet, "?resourceVersion=0&watch=true", "?resourceVersion=0&watch=true"},
		"an object":                      {http.MethodGet, "/blue.10.0.0.1", "/blue.10.0.0.1"},
		"a deletion":                     {http.MethodDelete, "?resourceVersion=0", "?resourceVersion=0"},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), c.method, path+c.asked, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			_, _ = newPresentLists(transport(func(sent *http.Request) (*http.Response, error) {
				got = sent.URL.String()
				return nil, nil
			})).RoundTrip(request)
			if got != path+c.want {
				t.Errorf("sent is %s, want %s", got, path+c.want)
			}
			if request.URL.String() != path+c.asked {
				t.Errorf("the caller's request is changed to %s", request.URL)
			}
		})
	}
}
