// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package proxyhealth

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/alioth-net/alioth/test/waits"
)

func TestProxyHealth_EachState_LoadBalancerAnswerMatches(t *testing.T) {
	since := time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		state           State
		healthz, livez  int
		eligible, fresh bool
	}{
		"programmed":          {State{true, since, true}, 200, 200, true, true},
		"about to be deleted": {State{true, since, false}, 503, 200, false, false},
		"failing":             {State{false, since, true}, 503, 503, true, false},
		"not yet programmed":  {State{false, time.Time{}, true}, 503, 503, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Server{State: func() State { return c.state }}
			for page, want := range map[string]int{"/healthz": c.healthz, "/livez": c.livez, "/metrics": 404} {
				recorder := httptest.NewRecorder()
				s.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, page, nil))
				if recorder.Code != want {
					t.Errorf("%s: status %d, want %d", page, recorder.Code, want)
				}
				if page != "/healthz" {
					continue
				}
				var body struct {
					LastUpdated, CurrentTime time.Time
					NodeEligible             *bool
				}
				if err := json.Unmarshal(recorder.Body.Bytes(), &body); err != nil {
					t.Fatalf("%q: %v", recorder.Body, err)
				}
				fresh := body.LastUpdated.Equal(body.CurrentTime)
				if body.NodeEligible == nil || *body.NodeEligible != c.eligible || fresh != c.fresh {
					t.Errorf("body %s", recorder.Body)
				}
			}
		})
	}
}

func TestProxyHealth_EachRequest_OnlyHealthQueriesAnswered(t *testing.T) {
	s := &Server{State: func() State { return State{Programmed: true, Eligible: true} }}
	recorder := httptest.NewRecorder()
	s.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/healthz", nil))
	if recorder.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", recorder.Code)
	}
}

// kube-proxy may have the port. It is had once kube-proxy has gone.
func TestProxyHealth_PortTaken_Waits(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: other.Addr().String(), State: func() State { return State{Programmed: true, Eligible: true} }, Log: slog.New(slog.DiscardHandler)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(t.Context())
	}()
	t.Cleanup(func() { <-ended })
	await(t, func() bool { return s.Problem() != "" })
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool {
		response, err := http.Get("http://" + s.Addr + "/healthz")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode == http.StatusOK
	})
	if problem := s.Problem(); problem != "" {
		t.Errorf("problem %q while it is served", problem)
	}
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	waits.True(t, 30*time.Second, "it is served", done)
}
