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
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// serveHTTP serves health and metrics until ctx ends.
func (n *node) serveHTTP(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	health := http.NewServeMux()
	health.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	health.HandleFunc("/readyz", n.readyz)
	handlers := map[string]http.Handler{n.cfg.HealthAddr: health}
	switch addr := n.cfg.MetricsAddr; {
	case addr == n.cfg.HealthAddr: // one address may serve both
		health.Handle("/metrics", n.metrics())
	case addr == "" || loopback(addr):
		metrics := http.NewServeMux()
		metrics.Handle("/metrics", n.metrics())
		handlers[addr] = metrics
	default:
		group.Go(func() error { return serveGuarded(ctx, addr, n.api, n.registry) })
	}
	for address, handler := range handlers {
		if address != "" {
			group.Go(func() error { return listenAndServe(ctx, address, handler, n.log) })
		}
	}
	return group.Wait()
}

func (n *node) metrics() http.Handler {
	return promhttp.HandlerFor(n.registry, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelWarn)})
}

// loopback says whether only the node itself reaches an address.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// serveGuarded serves metrics with TLS, and asks the API server who asks
// (TokenReview) and whether they may (SubjectAccessReview), until ctx ends.
func serveGuarded(ctx context.Context, addr string, api *rest.Config, registry *prometheus.Registry) error {
	if api == nil {
		return fmt.Errorf("serve metrics on %s: there is no API server to ask who may read them", addr)
	}
	client, err := rest.HTTPClientFor(api)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	// The library serves its own registry, which has nothing else of interest.
	if err := metrics.Registry.Register(registry); err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	server, err := metricsserver.NewServer(metricsserver.Options{
		BindAddress: addr, SecureServing: true, FilterProvider: filters.WithAuthenticationAndAuthorization,
	}, api, client)
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	if err := server.Start(ctx); err != nil {
		return fmt.Errorf("serve metrics on %s (choose another address with --metrics-addr): %w", addr, err)
	}
	return nil
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
