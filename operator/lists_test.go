// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// TestFirstList_Informer_ShowsPresentState: requests of other sorts are sent unchanged.
func TestFirstList_Informer_ShowsPresentState(t *testing.T) {
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
				return nil, errors.New("no server")
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

// TestFirstLists_SeveralKinds_OneAtATime: other requests do not wait for the list.
func TestFirstLists_SeveralKinds_OneAtATime(t *testing.T) {
	open := 0
	lists := newPresentLists(transport(func(sent *http.Request) (*http.Response, error) {
		if open++; sent.URL.Path == "/broken" {
			open--
			return nil, errors.New("no server")
		}
		return &http.Response{Body: io.NopCloser(strings.NewReader(""))}, nil
	}))
	ask := func(ctx context.Context, path string) (*http.Response, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return lists.RoundTrip(request)
	}
	if _, err := ask(t.Context(), "/broken?resourceVersion=0"); err == nil {
		t.Fatal("a list without a server has an answer")
	}
	first, err := ask(t.Context(), "/first?resourceVersion=0")
	if err != nil {
		t.Fatal(err)
	}
	if other, err := ask(t.Context(), "/object"); err != nil {
		t.Errorf("another request waits: %v", err)
	} else {
		other.Body.Close()
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := ask(ended, "/second?resourceVersion=0"); !errors.Is(err, context.Canceled) || open != 2 {
		t.Errorf("a second list beside the first: %v, %d requests", err, open)
	}
	first.Body.Close()
	first.Body.Close()
	second, err := ask(t.Context(), "/second?resourceVersion=0")
	if err != nil {
		t.Fatal(err)
	}
	second.Body.Close()
}

// TestFirstLists_PodsAndAddresses_PodsLater: pods also wait for a list of Addresses that fails.
func TestFirstLists_PodsAndAddresses_PodsLater(t *testing.T) {
	const addresses, pods = "/apis/alioth.dev/v1alpha1/addresses", "/api/v1/pods"
	synctest.Test(t, func(t *testing.T) {
		status := http.StatusServiceUnavailable
		var sent []string
		lists := newPresentLists(transport(func(request *http.Request) (*http.Response, error) {
			sent = append(sent, request.URL.Path)
			return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(""))}, nil
		}))
		ask := func(ctx context.Context, path string) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example"+path+"?resourceVersion=0", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := lists.RoundTrip(request)
			if err == nil {
				err = response.Body.Close()
			}
			return err
		}
		ended, end := context.WithCancel(t.Context())
		var given, asked error
		go func() { given = ask(ended, pods) }()
		go func() { asked = ask(t.Context(), pods) }()
		synctest.Wait()
		end()
		synctest.Wait()
		if !errors.Is(given, context.Canceled) {
			t.Errorf("a list of pods that was given up ended with %v", given)
		}
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(sent, want) {
				t.Errorf("sent were %v, want %v", sent, want)
			}
		}
		expect()
		for _, status = range []int{http.StatusServiceUnavailable, http.StatusOK} {
			expect(slices.Repeat([]string{addresses}, len(sent))...)
			if err := ask(t.Context(), addresses); err != nil {
				t.Error(err)
			}
		}
		expect(addresses, addresses, pods)
		if err := ask(t.Context(), pods); err != nil || asked != nil {
			t.Errorf("the lists of pods ended with %v, %v", err, asked)
		}
		expect(addresses, addresses, pods, pods)
	})
}

// TestFirstLists_OtherVersionRequested_PodsGoOn: after some errors an informer asks for another
// version than at first.
func TestFirstLists_OtherVersionRequested_PodsGoOn(t *testing.T) {
	lists := newPresentLists(transport(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
	}))
	for _, url := range []string{"/apis/alioth.dev/v1alpha1/addresses?resourceVersion=", "/api/v1/pods?resourceVersion=0"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example"+url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := lists.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
}
