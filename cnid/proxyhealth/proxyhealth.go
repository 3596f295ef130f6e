// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proxyhealth tells load balancers outside whether a node serves Services, at
// the port and with the answers of kube-proxy (KEP-3836): /healthz is what they ask
// before they send a node new connections, /livez whether what serves is well.
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
	// retry is how long it takes until a port is tried again that could not be had.
	retry = 5 * time.Second
	// openAtMost bounds the connections, and each lasts exchange at most: the port is
	// open to whoever reaches the node.
	openAtMost = 64
	exchange   = 5 * time.Second
)

// State is what is told.
type State struct {
	// Programmed reports that the node serves what the API says, or has only just
	// failed to; Since is when it did last, the zero value if it did never.
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
	// failure is why the port could not be had, nil while it is open.
	failure error
}

// Run serves until ctx ends. A port that somebody else has is tried for again and
// again: the rest of the daemon goes on.
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

// respond writes an answer. Where all is well the time of the last update is now, as
// nothing is left to be done.
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
	_, _ = w.Write(text) // nobody is left who could be told that it failed
}
