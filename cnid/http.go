// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/cnid/cluster/report"
)

// serveHTTP serves health and metrics until ctx ends. Metrics name VPCs, and every pod on the
// node's network reaches loopback, so no address has them without authorization.
func (d *daemon) serveHTTP(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	health := http.NewServeMux()
	health.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	health.HandleFunc("/readyz", d.readyz)
	for address, serve := range map[string]func(string) error{
		d.cfg.HealthAddr:  func(addr string) error { return listenAndServe(ctx, addr, health, nil, d.log) },
		d.cfg.MetricsAddr: func(addr string) error { return d.serveMetrics(ctx, addr) },
	} {
		if address != "" {
			group.Go(func() error { return serve(address) })
		}
	}
	return group.Wait()
}

// metricsPath is the path of the metrics at their address and at the daemon's socket.
const metricsPath = "/metrics"

// metrics answers /metrics, without compression: a compressor takes 0.8 MB of the daemon's
// memory for each answer.
func (n *node) metrics() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(metricsPath, promhttp.HandlerFor(n.registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelWarn), DisableCompression: true,
	}))
	return mux
}

// Guard limits an HTTP server to users that may use it.
type Guard interface {
	// Protect returns a handler that lets only these users through to next, and the
	// configuration of TLS for the server of a component.
	Protect(api *rest.Config, component string, next http.Handler, log *slog.Logger) (http.Handler, *tls.Config, error)
}

// serveMetrics serves metrics with TLS to clients that the API server authorizes, until ctx ends.
func (d *daemon) serveMetrics(ctx context.Context, addr string) error {
	switch {
	case d.api == nil:
		return fmt.Errorf("serve metrics on %s: there is no API server to ask who may read them", addr)
	case d.cfg.Guard == nil:
		return fmt.Errorf("serve metrics on %s: there is no guard", addr)
	}
	guarded, certificate, err := d.cfg.Guard.Protect(d.api, report.Component, d.metrics(), d.log)
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return listenAndServe(ctx, addr, guarded, certificate, d.log)
}

// readyz reports whether pods can be attached. A missing API server does not make
// the daemon unready once it has started.
func (d *daemon) readyz(w http.ResponseWriter, _ *http.Request) {
	if mtu, _ := d.progress.PodMTU(); mtu == 0 {
		http.Error(w, "the node is not programmed yet", http.StatusServiceUnavailable)
		return
	}
	if err := cmp.Or(d.progress.Ready(), d.ports.Unsafe()); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// shutdownWait limits how long requests may take while the server ends.
const shutdownWait = 2 * time.Second

// listenAndServe serves until ctx ends, with TLS if there is a configuration of it.
func listenAndServe(
	ctx context.Context,
	address string,
	handler http.Handler,
	secure *tls.Config,
	log *slog.Logger,
) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serve health or metrics (choose other addresses with --health-addr and --metrics-addr): %w", err)
	}
	if secure != nil {
		listener = tls.NewListener(listener, secure)
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
