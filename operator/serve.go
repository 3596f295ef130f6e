// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/alioth-net/alioth/operator/feed"
)

const headerTimeout = 5 * time.Second

// state is the input of the readiness check: the feed of the present term, and its lease.
type state struct {
	feed  atomic.Pointer[feed.Feed]
	lease atomic.Pointer[lease]
}

// set has the parts of a term; l is nil without leader election.
func (s *state) set(f *feed.Feed, l *lease) {
	s.lease.Store(l)
	s.feed.Store(f)
}

func (s *state) clear() { s.feed.Store(nil) }

func (s *state) filled() bool {
	f := s.feed.Load()
	return f != nil && f.Synced()
}

// ready is true for a replica that leads, or can take over: it knows the lease.
func (s *state) ready() bool {
	l := s.lease.Load()
	return s.filled() && (l == nil || l.known.Load())
}

// serve starts the health and metrics servers, which outlive every term, and
// returns a function that stops them.
func serve(
	ctx context.Context,
	cfg Config,
	config *rest.Config,
	m *metricSet,
	s *state,
	log *slog.Logger,
) (stop func(), err error) {
	all := &servers{log: log}
	defer func() {
		if err != nil {
			all.stop()
		}
	}()
	if cfg.HealthAddr != "" {
		if err := all.start(ctx, cfg.HealthAddr, healthHandler(s), nil); err != nil {
			return nil, err
		}
	}
	if cfg.MetricsAddr == "" {
		return all.stop, nil
	}
	handler, secure, err := metricsHandler(cfg, config, m, log)
	if err != nil {
		return nil, err
	}
	return all.stop, all.start(ctx, cfg.MetricsAddr, handler, secure)
}

// servers are running HTTP servers.
type servers struct {
	log     *slog.Logger
	running []*http.Server
}

func (s *servers) start(ctx context.Context, addr string, handler http.Handler, secure *tls.Config) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", addr, err)
	}
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout}
	s.running = append(s.running, server)
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("server ended", "address", addr, "error", err)
		}
	}()
	return nil
}

func (s *servers) stop() {
	for _, server := range s.running {
		if err := server.Close(); err != nil {
			s.log.Error("server not closed", "error", err)
		}
	}
}

// healthHandler serves /healthz while the process runs, and /readyz once the store is
// filled and the lease is known, whether or not this process leads.
func healthHandler(s *state) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !s.ready() {
			http.Error(w, "the store is not filled, or the lease is not known yet", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusOK)
	})
	return mux
}

// metricsHandler serves /metrics; beyond the loopback device with TLS, and only to
// authorized users.
func metricsHandler(
	cfg Config,
	config *rest.Config,
	m *metricSet,
	log *slog.Logger,
) (http.Handler, *tls.Config, error) {
	mux := http.NewServeMux()
	all := prometheus.Gatherers{m.registry, metrics.Registry}
	mux.Handle("GET /metrics", promhttp.HandlerFor(all, promhttp.HandlerOpts{}))
	if loopback(cfg.MetricsAddr) {
		return mux, nil, nil
	}
	if cfg.Guard == nil {
		return nil, nil, fmt.Errorf("guard the metrics on %s: there is no guard", cfg.MetricsAddr)
	}
	guarded, certificate, err := cfg.Guard.Protect(config, "alioth-operator", mux, log)
	if err != nil {
		return nil, nil, fmt.Errorf("guard the metrics: %w", err)
	}
	return guarded, certificate, nil
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
