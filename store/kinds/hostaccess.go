// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// HostAccess is the kind of what tenants may have of nodes.
var HostAccess = define(description[*v1alpha1.HostAccess, store.HostAccess]{
	name: "HostAccess", object: &v1alpha1.HostAccess{}, list: &v1alpha1.HostAccessList{}, convert: convertHostAccess,
	table: byName(store.GetHostAccess, store.PutHostAccess, store.DeleteHostAccess),
	verdict: func(row *store.HostAccess) Verdict {
		return Verdict{ID: ID{Name: row.Name, UID: row.UID}, Ready: row.Ready, Reason: row.Reason, Message: row.Message}
	},
	rows:   listed(store.ListHostAccesses),
	onNode: everything,
})

// convertHostAccess converts a HostAccess. It returns an error where a port can't be read,
// which the schema refuses.
func convertHostAccess(in *v1alpha1.HostAccess) (*store.HostAccess, error) {
	row := &store.HostAccess{
		Meta: rowMeta(in), Name: in.Name,
		AllowedTenants: slices.Clone(in.Spec.AllowedTenants), HostNetwork: in.Spec.HostNetwork,
	}
	for _, text := range in.Spec.HostPorts {
		ports, err := hostPortRange(text)
		if err != nil {
			return nil, fmt.Errorf("convert HostAccess %s: %w", in.Name, err)
		}
		row.Ports = append(row.Ports, ports)
	}
	row.Ready, row.Reason, row.Message = readiness(in.Status.Conditions)
	return row, nil
}

func hostPortRange(text string) (store.HostPortRange, error) {
	numbers, protocol, _ := strings.Cut(text, "/")
	first, last, isRange := strings.Cut(numbers, "-")
	if !isRange {
		last = first
	}
	from, err := strconv.ParseUint(first, 10, 16)
	if err != nil {
		return store.HostPortRange{}, fmt.Errorf("read ports %q: %w", text, err)
	}
	to, err := strconv.ParseUint(last, 10, 16)
	if err != nil {
		return store.HostPortRange{}, fmt.Errorf("read ports %q: %w", text, err)
	}
	return store.HostPortRange{Protocol: protocol, First: uint16(from), Last: uint16(to)}, nil
}
