// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

func (s *Server) startHTTP(port uint16) (func(context.Context) error, error) {
	listener, err := net.Listen("tcp", wildcard(port))
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	return func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { server.Close() })()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve http: %w", err)
		}
		return nil
	}, nil
}

// handler: GET /healthz, PUT /healthz?ok=true|false, GET /hostname, GET /seen;
// any other path answers "<name> <peer> <path>" and is recorded, so that a
// probe may carry its owner in the path.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.getHealth)
	mux.HandleFunc("PUT /healthz", func(_ http.ResponseWriter, r *http.Request) {
		s.health.set(r.URL.Query().Get("ok") != "false")
	})
	mux.HandleFunc("GET /hostname", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, s.config.Name)
	})
	mux.HandleFunc("GET /seen", func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(s.seen.list()); err != nil {
			s.log.Debug("answer ended", "error", err)
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.note(r)
		fmt.Fprintf(w, "%s %s %s\n", s.config.Name, r.RemoteAddr, r.URL.Path)
	})
	return mux
}

func (s *Server) getHealth(w http.ResponseWriter, r *http.Request) {
	s.note(r)
	if s.health.failing.Load() {
		http.Error(w, "told to fail", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (s *Server) note(r *http.Request) {
	if addr, err := net.ResolveTCPAddr("tcp", r.RemoteAddr); err == nil {
		s.seen.add("http", addr, r.URL.Path)
	}
}
