// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scaled

import (
	"net/netip"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/rows/scaled"
	"github.com/alioth-net/alioth/store/rules/services"
)

// spread limits the parts of a verdict to this multiple of the needed number, before backends of
// the last parts move to the first.
const spread = 2

// arrange cuts a verdict into parts, given the present parts. A backend stays in the part that it
// is in, so the change of one backend is the change of one part. A new backend comes to the first
// part with room. Part 0 always exists. The parts between may be empty.
func arrange(v *services.Verdict, have []*scaled.Endpoint) []*scaled.Endpoint {
	needed := max(1, (len(v.Backends)+v1alpha1.MaxScaledBackends-1)/v1alpha1.MaxScaledBackends)
	cut := cutting{limit: min(needed*spread, v1alpha1.MaxScaledParts)}
	at := map[netip.Addr]int{}
	for _, row := range have {
		for i := range row.Backends {
			at[row.Backends[i].IP] = row.Part
		}
	}
	var pending []scaled.Backend
	for _, backend := range v.Backends {
		if part, known := at[backend.IP]; !known || !cut.add(part, backend) {
			pending = append(pending, backend)
		}
	}
	for part := 0; len(pending) > 0; {
		if cut.add(part, pending[0]) {
			pending = pending[1:]
		} else {
			part++
		}
	}
	return cut.rows(v)
}

// cutting are the backends of each part.
type cutting struct {
	parts [][]scaled.Backend
	// limit is the number of parts.
	limit int
}

// add adds a backend to a part, and reports whether there is room.
func (c *cutting) add(part int, backend scaled.Backend) bool {
	if part >= c.limit {
		return false
	}
	for len(c.parts) <= part {
		c.parts = append(c.parts, nil)
	}
	if len(c.parts[part]) == v1alpha1.MaxScaledBackends {
		return false
	}
	c.parts[part] = append(c.parts[part], backend)
	return true
}

// rows returns the parts that have something, in their order.
func (c *cutting) rows(v *services.Verdict) (rows []*scaled.Endpoint) {
	head := v.Head
	rows = append(rows, &scaled.Endpoint{ID: v.ID, Head: &head})
	for part, backends := range c.parts {
		switch {
		case part == 0:
			rows[0].Backends = backends
		case len(backends) > 0:
			rows = append(rows, &scaled.Endpoint{ID: v.ID, Part: part, Backends: backends})
		}
	}
	for _, row := range rows {
		spec := specOf(row)
		row.Name = v1alpha1.ScaledEndpointName(&spec)
	}
	return rows
}
