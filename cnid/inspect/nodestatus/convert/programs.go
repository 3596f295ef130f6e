// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Programs converts the places where programs are attached.
func Programs(a hook.Attached) nodestatus.Programs {
	return nodestatus.Programs{Filters: each(a.Filters, filter), Links: a.Links}
}

// FiltersOf returns the filters that an interface has to have.
func FiltersOf(i state.Interface) []nodestatus.Filter { return each(hook.FiltersOf(i), filter) }

func filter(f hook.Filter) nodestatus.Filter { return nodestatus.Filter(f) }
