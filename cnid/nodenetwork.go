// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/cnid/follow"
	"github.com/alioth-net/alioth/cnid/monitor"
	"github.com/alioth-net/alioth/cnid/nmstate/engine"
	"github.com/alioth-net/alioth/cnid/nmstate/handler"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/descriptor"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/kinds/nmstateapi"
	"github.com/alioth-net/alioth/store/kube"
	"github.com/alioth-net/alioth/store/nmstate"
)

// pollNetwork is how often the network of the node is read without a notification of a
// change. A notification comes for all but settings in files of the kernel.
const pollNetwork = 30 * time.Second

// kinds are those whose objects the daemon follows.
func (c Config) kinds() []*descriptor.Kind {
	all := kinds.All()
	area := nmstateapi.All()
	if c.NodeNetworkState {
		// The operator needs the policies where the daemon does not.
		area = slices.DeleteFunc(area, func(kind *descriptor.Kind) bool {
			return kind == nmstateapi.NodeNetworkState.Kind || c.NetworkPolicyMode == PoliciesDistributed
		})
	}
	return slices.DeleteFunc(all, func(kind *descriptor.Kind) bool { return slices.Contains(area, kind) })
}

// networkModules are the areas of the node's network state; none if it is off.
func (d *daemon) networkModules(api *kube.Client, sources *follow.Sources) ([]module, error) {
	if !d.cfg.NodeNetworkState {
		return nil, nil
	}
	state, err := d.networkStateModule(api, sources.AllSynced([]*descriptor.Kind{nmstateapi.NodeNetworkState.Kind}))
	if err != nil {
		return nil, err
	}
	modules := []module{state}
	if d.cfg.NetworkPolicyMode == PoliciesDistributed {
		modules = append(modules, d.networkPoliciesModule(api, sources.AllSynced(nmstateapi.All())))
	}
	return modules, nil
}

// networkStateModule keeps the node's NodeNetworkState.
func (d *daemon) networkStateModule(api handler.API, synced func() (bool, <-chan struct{})) (module, error) {
	self, err := os.Executable()
	if err != nil {
		return module{}, fmt.Errorf("find the daemon's own program: %w", err)
	}
	config := d.cfg.engine(d.networkUses, d.log)
	config.Guard = append([]string{self}, d.cfg.guardArguments()...)
	if d.api != nil {
		config.Reach = handler.Reach(d.api.Host)
	}
	s := &networkState{daemon: d, network: &network{cfg: config}, synced: synced, hints: make(chan struct{}, 1)}
	s.handler = handler.New(handler.Config{
		Node: d.cfg.NodeName, API: api, Engine: s.network, Wanted: s.wanted, Hints: s.hints,
		Poll: pollNetwork, Timeout: engine.DefaultTimeout, Log: d.log,
	})
	watch := monitor.NetworkWatch{Changed: s.hint, Log: d.log}
	return module{name: "node network state", loops: []func(context.Context){s.run, s.follow, watch.Run}}, nil
}

// networkState runs the state handler.
type networkState struct {
	*daemon
	network *network
	handler *handler.Handler
	synced  func() (bool, <-chan struct{})
	hints   chan struct{}
}

// run first undoes what a daemon that has ended has begun, which needs no API server.
func (s *networkState) run(ctx context.Context) {
	defer s.network.close()
	if _, err := s.network.engine(ctx); err != nil {
		s.log.Warn("can't open the network of the node; trying again", "error", err)
	}
	for synced, changed := s.synced(); !synced; synced, changed = s.synced() {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
	s.handler.Run(ctx)
}

// hint lets the handler look.
func (s *networkState) hint() {
	select {
	case s.hints <- struct{}{}:
	default: // it will look in any case
	}
}

// follow hints at each change of what the object asks for until ctx ends.
func (s *networkState) follow(ctx context.Context) {
	type asked struct {
		uid        string
		generation int64
	}
	var last asked
	for {
		err := s.store.Wait(ctx, func(tx store.ReadTx, _ *store.WatchSet) bool {
			var now asked
			if row := nmstate.GetState(tx, s.cfg.NodeName); row != nil {
				now = asked{row.UID, row.Generation}
			}
			changed := now != last
			last = now
			return changed
		})
		if err != nil {
			return
		}
		s.hint()
	}
}

// wanted is what the object asks for. It was read before the handler runs.
func (s *networkState) wanted(context.Context) (w handler.Wanted, err error) {
	s.store.View(func(tx store.ReadTx) {
		if node := store.GetNode(tx, s.cfg.NodeName); node != nil {
			w.NodeUID = types.UID(node.UID)
		}
		row := nmstate.GetState(tx, s.cfg.NodeName)
		if row == nil {
			return
		}
		w.UID, w.Generation, w.Unmanaged, w.Desired = types.UID(row.UID), row.Generation, !row.Managed, row.Desired
		if w.Desired == nil {
			w.Invalid = row.Invalid
		}
	})
	return w, nil
}
