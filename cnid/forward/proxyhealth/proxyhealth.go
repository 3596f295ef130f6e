// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proxyhealth reports to external load balancers whether a node serves Services,
// at the port and with the replies of kube-proxy (KEP-3836). Load balancers read /healthz
// before they send new connections to a node; /livez is the health of the daemon.
package proxyhealth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// Port is kube-proxy's.
const Port = 10256

const (
	// retry is the time until the next attempt to open a port that is in use.
	retry = 5 * time.Second
	// openAtMost limits the connections, and each lasts exchange at most: the port is
	// open to every client that reaches the node.
	openAtMost = 64
	exchange   = 5 * time.Second
)

// State is the input of the pages.
type State struct {
	// Programmed reports that the node is programmed as the API requires, or that this
	// has failed only for a short time. Since is the time of the last success, or the
	// zero value before the first success.
	Programmed bool
	Since      time.Time
	// Eligible is false for a node that is about to be deleted.
	Eligible bool
}

// Server serves the two pages at all addresses of the node.
type Server struct {
	// Addr is host:port; with an empty host all addresses of both families.
	Addr  string
	State func() State
	Log   *slog.Logger

	mu sync.Mutex
	// failure is the error of opening the port, nil while it is open.
	failure error
}

// Run serves until ctx ends. If another program has the port, Run retries, and the rest
// of the daemon continues.
func (s *Server) Run(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		s.fail(err)
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
	}
}

// Problem explains why nothing is served, "" while it is.
func (s *Server) Problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		return ""
	}
	return fmt.Sprintf("load balancers outside can't ask this node at %s, where kube-proxy answers elsewhere (%v): "+
		"end what listens there, kube-proxy for one, or turn daemon.proxyHealth of the chart off", s.Addr, s.failure)
}

func (s *Server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil && err != nil {
		s.Log.Error("can't serve the health of the node's Services; trying again", "address", s.Addr, "error", err)
	}
	s.failure = err
}

func (s *Server) serve(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return err
	}
	s.fail(nil)
	server := &http.Server{
		Handler: s.Handler(), ReadTimeout: exchange, WriteTimeout: exchange, IdleTimeout: exchange, MaxHeaderBytes: 4096,
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(netutil.LimitListener(listener, openAtMost)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// answer is the body, as kube-proxy's.
type answer struct {
	LastUpdated  time.Time `json:"lastUpdated"`
	CurrentTime  time.Time `json:"currentTime"`
	NodeEligible *bool     `json:"nodeEligible,omitempty"`
	Healthy      bool      `json:"healthy"`
}

// Handler answers both pages.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		state := s.State()
		respond(w, state, state.Programmed && state.Eligible, &state.Eligible)
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		state := s.State()
		respond(w, state, state.Programmed, nil)
	})
	return mux
}

// respond writes an answer. If the node is healthy, the time of the last update is now,
// because no update is pending.
func respond(w http.ResponseWriter, state State, healthy bool, eligible *bool) {
	now := time.Now()
	body := answer{LastUpdated: state.Since, CurrentTime: now, NodeEligible: eligible, Healthy: state.Programmed}
	if healthy {
		body.LastUpdated = now
	}
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !healthy {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(text) // an error can't be reported to the client
}
