// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// retryPort is the interval between attempts to serve a TCP port.
const retryPort = 10 * time.Second

// recheckPods is the interval between a server's checks that it can tell pods from other
// processes.
const recheckPods = time.Minute

// Ports are the TCP ports of the node IPAM API. The programs of the node guard them, so they
// are decided on before the kernel is programmed, and served after it. The zero value has
// none.
type Ports struct {
	places Places
	inPod  bool
	// pods is the cgroup of all pods; "" if it is unknown, or without a port.
	pods   string
	unsafe error
	server *Server
}

// Decide returns the ports at an address that Parse accepts; none for "". inPod reports that
// the daemon is a pod itself. Decide finds the cgroup of pods. Without it the API is at its socket
// alone, which does not stop the daemon.
func Decide(listen string, inPod bool, findPods func() (string, error), log *slog.Logger) *Ports {
	p := &Ports{inPod: inPod}
	if listen == "" {
		return p
	}
	p.places, _ = Parse(listen) // checked before
	var err error
	if p.pods, err = findPods(); err != nil {
		p.unsafe = err
		log.Error("the node IPAM API is not served by TCP", "error", err)
	}
	return p
}

// Guarded returns the cgroup and the port that the programs guard; zero values if there is
// nothing.
func (p *Ports) Guarded() (pods string, port uint16) {
	if p.pods == "" {
		return "", 0
	}
	return p.pods, p.places.Port
}

// Problem explains why the ports are not served, or is "".
func (p *Ports) Problem() string {
	if p.server != nil {
		return p.server.Problem()
	}
	if p.unsafe != nil {
		return Unserved(p.unsafe)
	}
	return ""
}

// Unsafe returns why pods can't be kept away from the ports, or nil. A person has to change
// the configuration then; all other problems may pass.
func (p *Ports) Unsafe() error {
	if p.server != nil {
		return p.server.Unsafe()
	}
	return p.unsafe
}

// Serving returns a function that serves the ports until ctx ends, once the node is programmed.
// It is called before any module runs. handler returns the handler for clients that have the
// token in the file.
func (p *Ports) Serving(
	tokenFile string,
	handler func(token string) http.Handler,
	programmed func(context.Context) bool,
	log *slog.Logger,
) func(context.Context) {
	if p.pods == "" {
		return func(context.Context) {}
	}
	p.server = New(Config{
		Places: p.places, Pods: p.pods, InPod: p.inPod, TokenFile: tokenFile, Handler: handler, Guarded: programmed,
		Every: retryPort, Recheck: recheckPods, Log: log,
	})
	return p.server.Run
}
