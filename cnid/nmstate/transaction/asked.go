// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"cmp"
	"context"
	"reflect"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/probe"
)

// asked asks before a change which targets are reached. The returned function asks after the
// change whether all required targets are reached, by the state of the host at that time.
func (m *Manager) asked(
	ctx context.Context,
	c change,
	o Options,
	committed *document.State,
	r *Record,
) func(context.Context, *document.State) error {
	if o.NoProbe {
		return func(context.Context, *document.State) error { return nil }
	}
	after := m.Probes(ctx, probe.Change{
		Before: c.before, Committed: committed, Routes: c.target.Routes, Interfaces: c.target.Interfaces,
		Repair: reflect.DeepEqual(committed, r.Committed), Reach: o.Reach, Kept: o.Kept,
	})
	return func(ctx context.Context, now *document.State) error {
		return probe.Await(ctx, after(now), cmp.Or(o.ProbeLimit, m.ProbeLimit))
	}
}
