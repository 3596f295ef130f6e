// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"time"

	"github.com/alioth-net/alioth/cnid/cluster/roles"
	"github.com/alioth-net/alioth/cnid/cluster/rollcall"
	"github.com/alioth-net/alioth/cnid/cluster/subscriptions"
	"github.com/alioth-net/alioth/cnid/forward/lookup"
	"github.com/alioth-net/alioth/cnid/forward/reconcile"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
)

// rolesModule reports about the roles of the node, and looks up single addresses that its
// tables lack.
func (d *daemon) rolesModule(api *kube.Client, rows *lookup.Loop) module {
	reporter := roles.New(d.cfg.NodeName, api, d.store, d.progress.Roles, store.CountNodes, d.log)
	d.registry.MustRegister(roles.NewCollector(d.cfg.NodeName, d.store, d.progress.Roles))
	return module{name: "roles", loops: []func(context.Context){reporter.Run, rows.Run}}
}

// cachedRows returns the Loop that keeps the rows of single addresses.
func (d *daemon) cachedRows(api *kube.Client, sources *subscriptions.Sources) *lookup.Loop {
	return lookup.New(lookup.Config{
		Node: d.cfg.NodeName, Store: d.store, Resolver: lookup.NewAPI(api), Opened: d.misses.Readers(),
		Sources: sources, Now: d.sinceBoot, Metrics: lookup.NewMetrics(d.registry), Log: d.log,
	})
}

// missesOf reads the addresses that a datapath misses.
func missesOf(path *datapath.Datapath) (lookup.Datapath, error) {
	misses, err := path.Misses()
	return lookup.Datapath{Table: path.Cached(), Misses: misses}, err
}

// sinceBoot returns the time of the clock that dates rows in the programs.
func (d *daemon) sinceBoot() time.Duration {
	now, err := datapath.MonotonicNow()
	if err != nil { // which Linux gives for an unknown clock alone
		d.log.Error("can't read the clock of the programs", "error", err)
	}
	return now
}

// programmed are the passes and the cached rows of a node, as a roll call sees them.
type programmed struct {
	*reconcile.Progress
	loop *reconcile.Loop
	rows *lookup.Loop
}

// VNIs returns the VNIs of passes and of cached rows.
func (p programmed) VNIs() []uint32 { return p.rows.VNIs(p.loop.VNIs) }

// rollCall returns the RollCall that replies to roll calls. A reply also has the rows that an
// earlier daemon has left.
func (d *daemon) rollCall(api *kube.Client, sources *subscriptions.Sources, rows *lookup.Loop) *rollcall.RollCall {
	known := broadcast.Gate(sources.VPCsRead).And(rows.Adopted)
	return rollcall.New(
		d.cfg.NodeName,
		d.store,
		d.journal,
		api,
		known,
		programmed{d.progress, d.loop, rows},
		store.CountNodes,
		d.cfg.ReviewEvery,
		d.log,
	)
}
