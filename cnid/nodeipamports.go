// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/alioth-net/alioth/cnid/install"
	"github.com/alioth-net/alioth/cnid/nodeipam/loopback"
)

// retryPort is how often a TCP port that can't be served is tried again.
const retryPort = 10 * time.Second

// nodeIPAMPorts are the TCP ports of the node IPAM API. The programs of the node guard them,
// so they are decided on before the kernel is programmed, and served after it.
type nodeIPAMPorts struct {
	places loopback.Places
	// pods is the cgroup of all pods; "" if it is unknown, or if there is no port.
	pods    string
	problem string
	server  *loopback.Server
}

// nodeIPAMPorts finds the cgroup of pods. Without it the API is at its socket alone, which
// does not stop the daemon.
func (c Config) nodeIPAMPorts(log *slog.Logger) *nodeIPAMPorts {
	p := &nodeIPAMPorts{}
	if !c.NodeIPAM.Enabled || c.NodeIPAM.Listen == "" {
		return p
	}
	p.places, _ = loopback.Parse(c.NodeIPAM.Listen) // checked before
	var err error
	if p.pods, err = install.PodCgroup(c.CgroupRoot, c.NodeIPAM.PodCgroup); err != nil {
		p.problem = loopback.Unserved(err)
		log.Error("the node IPAM API is not served by TCP", "error", err)
	}
	return p
}

// guarded returns what the programs guard; zero values if there is nothing.
func (p *nodeIPAMPorts) guarded() (pods string, port uint16) {
	if p.pods == "" {
		return "", 0
	}
	return p.pods, p.places.Port
}

// Problem explains why the ports are not served, or is "".
func (p *nodeIPAMPorts) Problem() string {
	if p.server != nil {
		return p.server.Problem()
	}
	return p.problem
}

// serving returns what serves the ports until ctx ends, once the node is programmed. It is
// called before any module runs.
func (p *nodeIPAMPorts) serving(handler http.Handler, programmed func(context.Context) bool, log *slog.Logger) func(context.Context) {
	if p.pods == "" {
		return func(context.Context) {}
	}
	p.server = loopback.New(loopback.Config{
		Places: p.places, Pods: p.pods, Handler: handler, Guarded: programmed, Every: retryPort, Log: log,
	})
	return p.server.Run
}
