// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"context"
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel/convert"
)

// Show returns the current state: interfaces by name, routes and rules in an order of their own.
// A device that disappears meanwhile may be missing.
func (k *Kernel) Show(ctx context.Context) (*document.State, error) {
	v, err := k.view(ctx)
	if err != nil {
		return nil, err
	}
	routes, err := k.routes(ctx, v.Names)
	if err != nil {
		return nil, err
	}
	rules, err := k.rules(ctx)
	if err != nil {
		return nil, err
	}
	state := &document.State{Routes: routes, RouteRules: &document.RouteRules{Config: rules}}
	state.Interfaces = make([]document.Interface, len(v.Links))
	for n, l := range v.Links {
		shown := v.Show(l)
		if shown.Type == document.Ethernet {
			shown.Ethernet = showEthernet(l)
		}
		state.Interfaces[n] = shown
	}
	return state, nil
}

// view asks for devices and all that interfaces have.
func (k *Kernel) view(ctx context.Context) (v convert.View, err error) {
	if v.Links, err = k.links(ctx); err != nil {
		return v, err
	}
	slices.SortFunc(v.Links, func(a, b convert.Link) int { return cmp.Compare(a.Name, b.Name) })
	v.Names = make(map[uint32]string, len(v.Links))
	for _, l := range v.Links {
		v.Names[l.Index] = l.Name
	}
	if v.Addresses, err = k.addresses(ctx, v.Links); err != nil {
		return v, err
	}
	if slices.ContainsFunc(v.Links, convert.Filters) {
		v.VLANs, err = k.vlans(ctx)
	}
	return v, err
}
