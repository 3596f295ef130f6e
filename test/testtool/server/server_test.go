// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/alioth-net/alioth/test/testtool/report"
)

func TestHealth_Told_Followed(t *testing.T) {
	s := New(Config{Name: "here"}, slog.New(slog.DiscardHandler))
	handler := s.handler()
	do := func(method, path string) int {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(method, path, http.NoBody))
		return recorder.Code
	}
	grpcStatus := func() grpc_health_v1.HealthCheckResponse_ServingStatus {
		answer, err := s.health.grpc.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatalf("check: %v", err)
		}
		return answer.GetStatus()
	}
	if do("GET", "/healthz") != http.StatusOK || grpcStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Error("a new server is not healthy")
	}
	do("PUT", "/healthz?ok=false")
	if do("GET", "/healthz") != http.StatusServiceUnavailable || grpcStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Error("a server that was told to fail is healthy")
	}
	do("PUT", "/healthz?ok=true")
	if do("GET", "/healthz") != http.StatusOK {
		t.Error("a server that was told to recover is not healthy")
	}
}

func TestSeen_Requests_ListedInOrder(t *testing.T) {
	handler := New(Config{Name: "here"}, slog.New(slog.DiscardHandler)).handler()
	for _, path := range []string{"/probe/a", "/healthz"} {
		request := httptest.NewRequest(http.MethodGet, path, http.NoBody)
		request.RemoteAddr = "[2001:db8::1]:999"
		handler.ServeHTTP(httptest.NewRecorder(), request)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/seen", http.NoBody))
	var got []report.Seen
	if err := json.NewDecoder(recorder.Body).Decode(&got); err != nil {
		t.Fatalf("decode: %v", err)
	}
	want := []report.Seen{
		{Proto: "http", Peer: "2001:db8::1", Text: "/probe/a"},
		{Proto: "http", Peer: "2001:db8::1", Text: "/healthz"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seen (-want +got):\n%s", diff)
	}
}

func TestJournal_Full_OldestForgotten(t *testing.T) {
	j := &journal{messages: make([]report.Seen, journalLimit)}
	j.messages[1].Text = "second"
	j.add("udp", net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:1")), "newest")
	list := j.list()
	if len(list) != journalLimit || list[0].Text != "second" || list[journalLimit-1].Text != "newest" {
		t.Errorf("journal has %d entries from %q to %q", len(list), list[0].Text, list[len(list)-1].Text)
	}
}
