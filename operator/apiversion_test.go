// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

func TestTerm_APIServerTooOld_EndsBeforeReading(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Path)
		fmt.Fprint(w, `{"major":"1","minor":"30","gitVersion":"v1.30.14"}`)
	}))
	defer server.Close()
	s := &state{}
	metrics, err := newMetrics(s)
	if err != nil {
		t.Fatal(err)
	}
	config := DefaultConfig()
	config.Namespace = "alioth-system"
	p := &process{cfg: config, rest: &rest.Config{Host: server.URL}, metrics: metrics, state: s, identity: "a", log: slog.New(slog.DiscardHandler)}
	if err := p.term(t.Context()); err == nil || !strings.Contains(err.Error(), "has version 1.30.14") {
		t.Errorf("the term ended with %v, want the version named", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(asked, []string{"/version"}) {
		t.Errorf("the term requested %q, want the version only", asked)
	}
}

func TestTerm_APIServerWithoutVersion_Accepted(t *testing.T) {
	for name, reply := range map[string]http.HandlerFunc{
		"forbidden": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"no JSON":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"no number": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"gitVersion":"unknown"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(reply)
			defer server.Close()
			if err := checkServer(t.Context(), &rest.Config{Host: server.URL}); err != nil {
				t.Error(err)
			}
		})
	}
}
