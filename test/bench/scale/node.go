// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/cnid"
	"github.com/alioth-net/alioth/cnid/cluster/roles"
	"github.com/alioth-net/alioth/cnid/cluster/subscriptions"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/client/reflector"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/test/bench/scale/transport"
)

// node is the common part of a hollow node and a holder of watches: the daemon's sources, over a
// connection to the API server and with a token of the node's own.
type node struct {
	name    string
	cfg     cnid.Config
	roles   *roles.Reporter
	api     *kube.Client
	store   *store.Store
	sources *subscriptions.Sources
	nodes   int
	log     *slog.Logger
	*transport.Meter
	// journal has the node's records; nil for a node without.
	journal *journal.Journal
}

// access is a way to the API server.
type access struct {
	server *rest.Config
	// nodes is the size of the cluster: a holder forgets the other Nodes.
	nodes int
	// from is the node's address: with one for all, they would be short of ports.
	from netip.Addr
	// token of the node's daemon.
	token string
	// lists answer first lists; nil where the API server does.
	lists func(http.RoundTripper) http.RoundTripper
}

// newNode returns a node that follows nothing yet. keeps narrows down the objects of a kind that
// the node keeps. passes is asked for a pass when the objects that it has read have changed.
func newNode(
	name string, via access, j *journal.Journal, keeps func(*descriptor.Kind) *descriptor.Kind, passes subscriptions.Passes, log *slog.Logger,
) (*node, error) {
	n := &node{name: name, nodes: via.nodes, cfg: cnid.DefaultConfig(), Meter: transport.NewMeter(), journal: j, log: log.With("node", name)}
	n.cfg.NodeName, n.cfg.ScaledEndpoints = name, true
	var err error
	if n.store, err = store.New(); err != nil {
		return nil, err
	}
	if n.api, err = newClient(via, n.Meter); err != nil {
		return nil, err
	}
	var followed []*descriptor.Kind
	for _, kind := range n.cfg.Kinds() {
		followed = append(followed, keeps(kind))
	}
	n.sources = subscriptions.New(
		subscriptions.Config{
			Node: name, DefaultVPC: n.cfg.DefaultVPC, NodePorts: n.cfg.NodePorts, ScaledEndpoints: n.cfg.ScaledEndpoints, Kinds: followed, Passes: passes,
		},
		n.api, reflector.NewSet(n.store, n.api, n.log), n.store, n, n.log,
	)
	return n, nil
}

// newClient returns a client with a connection of its own: client-go shares connections
// between clients of one server unless they dial in different ways.
func newClient(via access, m *transport.Meter) (*kube.Client, error) {
	config := rest.CopyConfig(via.server)
	config.BearerToken = via.token
	config.Dial = (&net.Dialer{
		Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(via.from, 0)),
	}).DialContext
	if via.lists != nil {
		config.Wrap(via.lists)
	}
	config.Wrap(m.Wrap)
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return kube.New(config, scheme)
}

func (n *node) size(store.ReadTx) int { return n.nodes }

func (n *node) Records() []journal.Record {
	if n.journal == nil {
		return nil
	}
	return n.journal.Records()
}

// synced returns once everything that the node follows has been read.
func (n *node) synced(ctx context.Context) error {
	for {
		synced, changed := n.sources.Synced()
		if synced {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait until node %s has read its part of the API: %w", n.name, context.Cause(ctx))
		}
	}
}

// run starts loops, which end with ctx.
func run(ctx context.Context, group *errgroup.Group, loops ...func(context.Context)) {
	for _, loop := range loops {
		group.Go(func() error { loop(ctx); return nil })
	}
}
