// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeservices

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/alioth-net/alioth/cnid/forward/plan/serviceplan"
)

// HealthChecks report to external load balancers whether this node has backends of a
// Service whose externalTrafficPolicy is Local: status 200 or 503 at its
// healthCheckNodePort, with the body of kube-proxy.
type HealthChecks struct {
	log *slog.Logger

	mu sync.Mutex
	// served are the open ports, each with its reply.
	served map[uint16]*healthCheck
	// failed are the ports that could not be opened, whose error has been logged.
	failed map[uint16]bool
}

type healthCheck struct {
	server *http.Server
	// check is guarded by mu of HealthChecks.
	check serviceplan.HealthCheck
}

// NewHealthChecks returns HealthChecks without ports.
func NewHealthChecks(log *slog.Logger) *HealthChecks {
	return &HealthChecks{log: log, served: map[uint16]*healthCheck{}, failed: map[uint16]bool{}}
}

// Update opens and closes ports according to the list.
func (h *HealthChecks) Update(list []serviceplan.HealthCheck) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wanted := map[uint16]bool{}
	for _, check := range list {
		wanted[check.Port] = true
		if open := h.served[check.Port]; open != nil {
			open.check = check
			continue
		}
		h.open(check)
	}
	for port, open := range h.served {
		if !wanted[port] {
			delete(h.served, port)
			_ = open.server.Close() // connections are short
		}
	}
	for port := range h.failed {
		if !wanted[port] {
			delete(h.failed, port)
		}
	}
}

// open begins to serve one, called with mu held. After an error the next update tries
// again.
func (h *HealthChecks) open(check serviceplan.HealthCheck) {
	listener, err := (&net.ListenConfig{}).Listen(
		context.Background(),
		"tcp",
		net.JoinHostPort("", strconv.Itoa(int(check.Port))),
	)
	if err != nil {
		if !h.failed[check.Port] {
			h.log.Error("can't serve a healthCheckNodePort; load balancers see the node as one without backends",
				"service", check.Service, "port", check.Port, "error", err)
		}
		h.failed[check.Port] = true
		return
	}
	delete(h.failed, check.Port)
	one := &healthCheck{check: check}
	one.server = &http.Server{
		ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			h.mu.Lock()
			current := one.check
			h.mu.Unlock()
			answerHealth(w, current)
		}),
	}
	h.served[check.Port] = one
	go func() { _ = one.server.Serve(listener) }() // it ends with Close
}

// healthAnswer is the body of an answer, as kube-proxy's.
type healthAnswer struct {
	Service struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"service"`
	LocalEndpoints      int  `json:"localEndpoints"`
	ServiceProxyHealthy bool `json:"serviceProxyHealthy"`
}

func answerHealth(w http.ResponseWriter, check serviceplan.HealthCheck) {
	answer := healthAnswer{LocalEndpoints: check.Backends, ServiceProxyHealthy: true}
	answer.Service.Namespace, answer.Service.Name = check.Service.Namespace, check.Service.Name
	body, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(check.Backends))
	if check.Backends == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	fmt.Fprintf(w, "%s\n", body)
}

// Close ends all of them.
func (h *HealthChecks) Close() { h.Update(nil) }
