// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/alioth-net/alioth/operator/address"
	"github.com/alioth-net/alioth/operator/announce"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/distrust"
	"github.com/alioth-net/alioth/operator/externaladdress"
	"github.com/alioth-net/alioth/operator/externalpool"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/hostaccess"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/operator/network"
	"github.com/alioth-net/alioth/operator/node"
	"github.com/alioth-net/alioth/operator/pod"
	"github.com/alioth-net/alioth/operator/publish"
	"github.com/alioth-net/alioth/operator/rollcall"
	"github.com/alioth-net/alioth/operator/service"
	"github.com/alioth-net/alioth/operator/sharedservice"
	"github.com/alioth-net/alioth/operator/subnet"
	"github.com/alioth-net/alioth/operator/vpc"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds"
)

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register API types: %w", err)
	}
	return scheme, nil
}

// environment is what a term works with: in production all of it is a manager's.
type environment struct {
	informers cache.Cache
	// writer writes; its reads come from the informers. live reads from the API
	// server.
	writer      client.Client
	live        client.Reader
	events      events.EventRecorder
	controllers feed.Controllers
	// leading is closed once the term's controllers run.
	leading <-chan struct{}
	log     logr.Logger
	now     func() time.Time
}

func managed(mgr manager.Manager) environment {
	return environment{
		informers: mgr.GetCache(), writer: mgr.GetClient(), live: mgr.GetAPIReader(),
		events: mgr.GetEventRecorder("alioth-operator"), controllers: feed.ManagerControllers{Manager: mgr},
		leading: mgr.Elected(), log: mgr.GetLogger(), now: time.Now,
	}
}

// assemble makes an empty store, connects it with the informers, and adds all
// controllers.
func assemble(ctx context.Context, env environment, cfg Config, m *metricSet) (*feed.Feed, error) {
	rows, err := store.New()
	if err != nil {
		return nil, err
	}
	fed := feed.New(rows, env.log.WithName("feed"))
	resting := &ipam.Resting{}
	fed.Subscribe(func(change feed.Change) {
		if change.New != nil {
			return
		}
		switch old := change.Old.(type) {
		case *store.Address:
			resting.Add(old.VPC, old.IP, env.now())
		case *store.ExternalAddress:
			resting.Add("", old.IP, env.now())
		}
	})
	if err := fed.Connect(ctx, env.informers, watched()); err != nil {
		return nil, err
	}
	announce.Subscribe(fed, env.events, env.leading)
	return fed, register(env, fed, resting, cfg, m)
}

// watched lists the kinds that the operator watches.
func watched() []*kinds.Kind {
	list := kinds.All()
	for i, kind := range list {
		switch kind {
		case kinds.Pod.Kind:
			list[i] = feed.Pod
		case kinds.Address.Kind:
			list[i] = feed.Address
		}
	}
	return list
}

// register adds the controllers, each with a client that counts what it writes.
func register(env environment, fed *feed.Feed, resting *ipam.Resting, cfg Config, m *metricSet) error {
	rows, to := fed.Store(), env.controllers
	writer := func(controller string) client.Client { return m.writes.of(controller, env.writer) }
	reporter := &distrust.Reporter{Store: rows, Events: env.events, Metrics: m.distrust}
	calls := &rollcall.Reconciler{
		Client: writer("rollcall"), Live: env.live, Store: rows, Publish: fed.Publish, Distrust: reporter, Now: env.now,
	}
	claimer := func(controller string) *claim.Claimer {
		return &claim.Claimer{
			Client: writer(controller), Live: env.live, Store: rows, Resting: resting, Settled: calls.Settled, Publish: fed.Publish, Now: env.now,
		}
	}
	publisher := func(controller string) publish.Publisher {
		return publish.Publisher{Client: writer(controller), Live: env.live}
	}
	return errors.Join(
		rollcall.Register(to, fed, calls),
		vpc.Register(to, fed, &vpc.Reconciler{
			Client: writer("vpc"), Live: env.live, Store: rows, Settled: calls.Settled, Publish: fed.Publish, Rules: cfg.rules(),
		}),
		subnet.Register(to, fed, &subnet.Reconciler{Client: writer("subnet"), Store: rows}),
		network.Register(to, fed, &network.Reconciler{Client: writer("network"), Store: rows}),
		service.Register(to, fed, service.New(service.Options{
			Client: writer("service"), Store: rows, Claimer: claimer("service"), Events: env.events,
			Rules: service.Rules{DefaultVPC: cfg.DefaultVPC, Shared: cfg.SharedServices},
		})),
		externalpool.Register(to, fed, &externalpool.Reconciler{
			Client: writer("externalpool"), Store: rows, Rules: cfg.rules(), Publisher: publisher("externalpool"),
		}),
		hostaccess.Register(to, fed, &hostaccess.Reconciler{
			Client: writer("hostaccess"), Store: rows, Publisher: publisher("hostaccess"),
		}),
		externaladdress.Register(to, fed, &externaladdress.Reconciler{
			Client: writer("externaladdress"), Live: env.live, Store: rows, Claimer: claimer("externaladdress"), DefaultVPC: cfg.DefaultVPC,
		}),
		sharedservice.Register(to, fed, &sharedservice.Reconciler{Client: writer("sharedservice"), Store: rows}),
		node.Register(to, fed, &node.Reconciler{
			Live: env.live, Store: rows, Claimer: claimer("node"), Events: env.events, DefaultVPC: cfg.DefaultVPC,
		}),
		address.Register(to, fed, &address.Reconciler{Live: env.live, Store: rows, Claimer: claimer("address"), Distrust: reporter}),
		pod.Register(to, fed, pod.New(pod.Options{
			Client: writer("pod"), Live: env.live, Store: rows, Claimer: claimer("pod"), Events: env.events, Metrics: m.pods,
			DefaultVPC: cfg.DefaultVPC, Now: env.now,
		})),
	)
}
