// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"

	"k8s.io/utils/clock"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/alioth-net/alioth/operator/announce"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/operator/rollcall"
	"github.com/alioth-net/alioth/operator/write"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/rows/external"
)

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register API types: %w", err)
	}
	return scheme, nil
}

// environment has the clients and informers of a term. In production a manager provides them.
type environment struct {
	informers cache.Cache
	// writer writes; its reads come from the informers. live reads from the API
	// server.
	writer      client.Client
	live        client.Reader
	events      events.EventRecorder
	controllers feed.Controllers
	kinds       optionalKinds
	// leading is closed once the term's controllers run.
	leading <-chan struct{}
	log     logr.Logger
	clock   clock.PassiveClock
}

func managed(mgr manager.Manager) environment {
	return environment{
		informers: mgr.GetCache(), writer: mgr.GetClient(), live: mgr.GetAPIReader(),
		events: announce.NewRecorder(
			mgr.GetEventRecorder("alioth-operator"),
		), controllers: feed.ManagerControllers{Manager: mgr},
		kinds:   managedKinds{mgr},
		leading: mgr.Elected(), log: mgr.GetLogger(), clock: clock.RealClock{},
	}
}

// parts are the components that the controllers of a term share.
type parts struct {
	env     environment
	cfg     Config
	metrics *metricSet
	feed    *feed.Feed
	rows    *store.Store
	// central are the same rows, for the controllers that list the addresses of Subnets.
	central store.Central
	// resting are addresses that are not assigned for a while after their release.
	resting *ipam.Resting
	// reporter reports nodes that are not trusted.
	reporter *announce.NodeAudit
	// calls decides when addresses and VNIs may be chosen.
	calls *rollcall.Reconciler
}

// newParts makes an empty store, and the components between it and the controllers.
func newParts(env environment, cfg Config, m *metricSet) (*parts, error) {
	central, err := store.NewCentral()
	if err != nil {
		return nil, err
	}
	rows := central.Store
	env.events = announce.NewBounded(env.events, env.clock, m.withheld)
	p := &parts{
		env: env, cfg: cfg, metrics: m, rows: rows, central: central, feed: feed.New(rows, env.log.WithName("feed")),
		resting:  &ipam.Resting{},
		reporter: &announce.NodeAudit{Store: rows, Events: env.events, Metrics: m.nodeAudit},
	}
	p.calls = &rollcall.Reconciler{
		Client: p.client(
			"rollcall",
		), Live: env.live, Store: rows, Feed: p.feed, Audit: p.reporter, Clock: env.clock, Every: cfg.RollCallEvery,
	}
	p.feed.Subscribe(p.rest)
	return p, nil
}

// rest notes the release of an address.
func (p *parts) rest(change feed.Change) {
	if change.New != nil {
		return
	}
	switch old := change.Old.(type) {
	case *store.Address:
		p.resting.Add(old.Domain(), old.IP, p.env.clock.Now())
	case *external.Address:
		p.resting.Add("", old.IP, p.env.clock.Now())
	}
}

// client returns a client that counts the writes of a controller.
func (p *parts) client(controller string) client.Client {
	return p.metrics.writes.of(controller, p.env.writer)
}

func (p *parts) claimer(controller string) *claim.Claimer {
	return &claim.Claimer{
		Client: p.client(controller), Live: p.env.live, Store: p.rows, Resting: p.resting, Term: p.calls,
		Feed: p.feed, Clock: p.env.clock,
	}
}

func (p *parts) grants(controller string) write.Grants {
	return write.Grants{Client: p.client(controller), Live: p.env.live}
}

// assemble makes an empty store, connects it with the informers, and adds the modules. It
// returns the optional kinds that the API lacks, which have no informers.
func assemble(
	ctx context.Context,
	env environment,
	cfg Config,
	m *metricSet,
) (_ *feed.Feed, missing []*descriptor.Kind, _ error) {
	p, err := newParts(env, cfg, m)
	if err != nil {
		return nil, nil, err
	}
	var all []*descriptor.Kind
	for _, area := range modules(cfg) {
		all = append(all, area.kinds...)
	}
	watched, missing, err := present(all, env.kinds)
	if err != nil {
		return nil, nil, err
	}
	if err := p.feed.Connect(ctx, env.informers, watched); err != nil {
		return nil, nil, err
	}
	for _, area := range modules(cfg) {
		if err := area.register(p); err != nil {
			return nil, nil, err
		}
	}
	return p.feed, missing, nil
}
