// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"time"

	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/forward/netfilter"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
)

func (k *Kernel) applyFilter(want ruleset.State, look Scope) error {
	want.Pods = k.pods.Load()
	known := want.Equal(k.filter)
	if known && look != atEverything {
		return nil
	}
	began := time.Now()
	k.inForce.Store(nil)
	replaced, err := k.filterAs(want, look == atEverything)
	if err != nil {
		return err
	}
	if replaced && known {
		k.repaired = append(
			k.repaired,
			finding.Repair{Kind: finding.RepairFilter, Detail: "packet filter table inet " + netfilter.TableName},
		)
	}
	k.forget(want)
	k.filter = want
	k.inForce.Store(&want)
	k.cfg.Metrics.since(stepFilter, began)
	return nil
}

// filterAs makes the packet filter equal to the wanted one, and reports whether
// anything was replaced. Services change far more often than anything else, and they
// are many.
func (k *Kernel) filterAs(want ruleset.State, thorough bool) (replaced bool, err error) {
	if !thorough && ruleset.OnlyFrontends(k.filter, want) {
		if err = k.table.Change(want); err == nil {
			return true, nil
		}
		k.cfg.Log.Warn("can't change ports of services; looking at the whole packet filter", "error", err)
	}
	return k.table.Apply(want)
}

// forget deletes UDP flows to backends that the filter in force no longer has. The
// flows of an earlier process are not known, so the first filter examines all UDP
// flows.
func (k *Kernel) forget(filter ruleset.State) {
	var last *ruleset.State
	if k.forgot {
		last = &k.filter
	}
	count, err := netfilter.Forget(last, filter)
	k.forgot = err == nil
	if err != nil {
		k.cfg.Log.Warn(
			"can't forget UDP flows to backends that are gone; they go on until nobody sends for a while",
			"error",
			err,
		)
	}
	if count > 0 {
		k.cfg.Log.Debug("forgot UDP flows to backends that are gone", "flows", count)
	}
}
