// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/address"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/operator/network"
	"github.com/alioth-net/alioth/operator/node"
	"github.com/alioth-net/alioth/operator/pod"
	"github.com/alioth-net/alioth/operator/subnet"
	"github.com/alioth-net/alioth/operator/vpc"
	"github.com/alioth-net/alioth/store"
)

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme, arktosv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register API types: %w", err)
		}
	}
	return scheme, nil
}

// assemble makes an empty store, connects it with the manager's informers, and
// adds all controllers.
func assemble(ctx context.Context, mgr manager.Manager, cfg Config, m *metricSet) (*feed.Feed, error) {
	rows, err := store.New()
	if err != nil {
		return nil, err
	}
	fed := feed.New(rows, mgr.GetLogger().WithName("feed"))
	resting := &ipam.Resting{}
	fed.Subscribe(func(change feed.Change) {
		if old, ok := change.Old.(*store.Address); ok && change.New == nil {
			resting.Add(old.VPC, old.IP, time.Now())
		}
	})
	if err := fed.Connect(ctx, mgr.GetCache()); err != nil {
		return nil, err
	}
	claimer := &claim.Claimer{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Store: rows, Resting: resting, Publish: fed.Publish, Now: time.Now,
	}
	return fed, register(mgr, fed, claimer, cfg, m)
}

func register(mgr manager.Manager, fed *feed.Feed, claimer *claim.Claimer, cfg Config, m *metricSet) error {
	writer, live, rows := mgr.GetClient(), mgr.GetAPIReader(), fed.Store()
	recorder := mgr.GetEventRecorder("alioth-operator")
	return errors.Join(
		vpc.Register(mgr, fed, &vpc.Reconciler{Client: writer, Live: live, Store: rows, Publish: fed.Publish, Rules: cfg.rules()}),
		subnet.Register(mgr, fed, &subnet.Reconciler{Client: writer, Store: rows}),
		network.Register(mgr, fed, &network.Reconciler{Client: writer, Store: rows}),
		node.Register(mgr, fed, &node.Reconciler{
			Live: live, Store: rows, Claimer: claimer, Events: recorder, DefaultVPC: cfg.DefaultVPC,
		}),
		address.Register(mgr, fed, &address.Reconciler{Live: live, Store: rows, Claimer: claimer}),
		pod.Register(mgr, fed, pod.New(pod.Options{
			Client: writer, Store: rows, Claimer: claimer, Events: recorder, Metrics: m.pods,
			DefaultVPC: cfg.DefaultVPC, Now: time.Now,
		})),
	)
}
