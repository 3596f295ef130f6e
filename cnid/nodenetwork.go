// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"k8s.io/utils/clock"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/cnid/cluster/subscriptions"
	"github.com/alioth-net/alioth/cnid/forward/monitor"
	"github.com/alioth-net/alioth/cnid/nmstate/engine"
	"github.com/alioth-net/alioth/cnid/nmstate/handler"
	"github.com/alioth-net/alioth/cnid/nmstate/host"
	"github.com/alioth-net/alioth/cnid/nmstate/permit"
	"github.com/alioth-net/alioth/cnid/nmstate/policy/policyhandler"
	"github.com/alioth-net/alioth/cnid/nmstate/reserved"
	"github.com/alioth-net/alioth/cnid/nmstate/runner"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds/nmstateapi"
)

// networkModules returns the areas of the node's network state; none if it is off.
func (d *daemon) networkModules(
	api *kube.Client,
	sources *subscriptions.Sources,
	events handler.Events,
) ([]module, error) {
	if !d.cfg.NodeNetworkState {
		return nil, nil
	}
	k, err := d.networkRunner(api, sources.AllSynced([]*descriptor.Kind{nmstateapi.NodeNetworkState.Kind}), events)
	if err != nil {
		return nil, err
	}
	modules := []module{d.networkStateModule(k)}
	if d.cfg.NetworkPolicyMode == PoliciesDistributed {
		modules = append(modules, d.networkPoliciesModule(api, sources.AllSynced(nmstateapi.All()), k.Current))
	}
	return modules, nil
}

// networkRunner returns the runner of the state handler.
func (d *daemon) networkRunner(api handler.API, synced broadcast.Gate, events handler.Events) (*runner.Runner, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the daemon's own program: %w", err)
	}
	config := d.cfg.engine(d.networkUses, d.log)
	config.Guard = append([]string{self}, d.cfg.guardArguments()...)
	if d.api != nil {
		config.APIServer = handler.APIServer(d.api.Host)
	}
	return runner.New(
		runner.Config{
			Node:   d.cfg.NodeName,
			API:    api,
			Store:  d.store,
			Engine: config,
			Synced: synced,
			Events: events,
			Log:    d.log,
		},
	), nil
}

// networkStateModule keeps the node's NodeNetworkState.
func (d *daemon) networkStateModule(k *runner.Runner) module {
	watch := monitor.NetworkWatch{Changed: k.Look, Log: d.log}
	return module{name: "node network state", loops: []func(context.Context){k.Run, k.Watch, k.ServeDHCP, watch.Run}}
}

// networkUses returns the parts of the node's own network that must stay.
func (d *daemon) networkUses() []permit.Use {
	return runner.Uses(d.store, d.cfg.NodeName, d.journal.Records(), d.host.Underlay)
}

// networkPoliciesModule puts the policies about the node's network together. current reads the state
// of the node's network.
func (d *daemon) networkPoliciesModule(
	api *kube.Client,
	synced broadcast.Gate,
	current func(context.Context) (map[string]any, error),
) module {
	policies := policyhandler.NewHandler(policyhandler.Config{
		API: api, Store: d.store, Clock: clock.RealClock{}, Log: d.log, Current: current,
		// Its row does not have the labels.
		Node: func(ctx context.Context, name string) (*corev1.Node, error) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
			defer cancel()
			return node, api.Get(ctx, node)
		},
	})
	return module{
		name:  "node network policies",
		loops: []func(context.Context){func(ctx context.Context) { policies.Run(ctx, d.cfg.NodeName, synced) }},
	}
}

// GuardSubcommand is the subcommand of alioth-cnid that calls GuardNetwork.
const GuardSubcommand = "guard-network"

// engine returns the configuration of the engine that changes the node's network. uses returns
// the uses of the network by attachments and others, nil in a process that undoes changes only.
func (c Config) engine(uses func() []permit.Use, log *slog.Logger) engine.Config {
	root, _ := c.hostFiles()
	return engine.Config{
		Dir: c.networkStateDir(), Root: string(root), Uses: uses,
		Others: host.Others{Interface: reserved.Is, Address: reserved.Addresses(c.Shadows)},
		Log:    slog.NewLogLogger(log.Handler(), slog.LevelInfo).Writer(),
	}
}

// GuardNetwork waits for the end of a change of the node's network, and undoes the change
// if the daemon ends or the change takes too long. It runs on the node, and not in the
// daemon's container.
func GuardNetwork(ctx context.Context, cfg Config, id string, log *slog.Logger) error {
	config := cfg.engine(nil, log)
	config.Root = "/"
	return engine.Guard(ctx, config, id)
}

// networkStatesKept reports whether the node applies its committed state at each boot, or
// may do so: a container with processes of its own does not see the node's files.
func (c Config) networkStatesKept() bool {
	const first = 1
	return os.Getpid() == first || c.engine(nil, slog.New(slog.DiscardHandler)).Unit().Installed()
}

// guardArguments returns the arguments of alioth-cnid for GuardNetwork, but for the change.
func (c Config) guardArguments() []string {
	var shadows []string
	for _, prefix := range c.Shadows {
		shadows = append(shadows, prefix.String())
	}
	return []string{GuardSubcommand, "--state-dir=" + c.StateDir, "--shadow-cidrs=" + strings.Join(shadows, ",")}
}
