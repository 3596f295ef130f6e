// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
)

// serveHTTP serves health and metrics until ctx ends.
func (n *node) serveHTTP(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	health := http.NewServeMux()
	metrics := health // one address may serve both
	if n.cfg.HealthAddr != n.cfg.MetricsAddr {
		metrics = http.NewServeMux()
	}
	health.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	health.HandleFunc("/readyz", n.readyz)
	metrics.Handle("/metrics", promhttp.HandlerFor(n.registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelWarn),
	}))
	for address, handler := range map[string]http.Handler{n.cfg.HealthAddr: health, n.cfg.MetricsAddr: metrics} {
		if address != "" {
			group.Go(func() error { return listenAndServe(ctx, address, handler, n.log) })
		}
	}
	return group.Wait()
}

// readyz says whether pods can be attached. A missing API server does not make
// the daemon unready once it has started.
func (n *node) readyz(w http.ResponseWriter, _ *http.Request) {
	if mtu, _ := n.syncer.podMTU(); mtu == 0 {
		http.Error(w, "the node is not programmed yet", http.StatusServiceUnavailable)
		return
	}
	if err := n.syncer.Ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// shutdownWait bounds how long requests may take while the server ends.
const shutdownWait = 2 * time.Second

func listenAndServe(ctx context.Context, address string, handler http.Handler, log *slog.Logger) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serve health or metrics (choose other addresses with --health-addr and --metrics-addr): %w", err)
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ctx.Done()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownWait)
		defer cancel()
		if err := server.Shutdown(bounded); err != nil {
			log.Debug("somebody is still asking", "address", address, "error", err)
		}
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", address, err)
	}
	<-ended
	return nil
}
