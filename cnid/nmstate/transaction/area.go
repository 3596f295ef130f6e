// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
)

// keep writes down what the host has where a change may alter it.
func (m *Manager) keep(ctx context.Context, r *Record, c change) error {
	r.Area = areaOf(c)
	now, err := m.Host.Image(ctx, r.Area)
	if err != nil {
		return err
	}
	r.Image = now.Within(r.Area)
	var above map[uint32][]string
	if len(r.Area.Removed) > 0 {
		if above, err = m.Host.Above(ctx); err != nil {
			return err
		}
	}
	if final := now.Final(r.Area, above); len(final) > 0 {
		return fmt.Errorf("%w: %s; save what is needed and delete it by hand first", ErrFinal, strings.Join(final, "; "))
	}
	// The change may separate devices that are connected now.
	r.Area.Reached, r.Area.Under = r.Image.Names(), now.Under(r.Image)
	if r.Automatic, err = m.Host.Automatic(); err != nil {
		return err
	}
	if c.changesResolver() {
		file, err := m.Host.Resolver()
		if err != nil {
			return err
		}
		r.ResolverFile = &file
	}
	return nil
}

// changesResolver reports whether the file of the resolver may change: with a lease comes and
// goes what the resolver has learned.
func (c change) changesResolver() bool {
	return c.target.Resolver != nil || slices.ContainsFunc(c.steps, func(step plan.Step) bool {
		_, automatic := step.(plan.SetAutomatic)
		return automatic
	})
}

// areaOf returns the area that a change may touch.
func areaOf(c change) snapshot.Area {
	a := snapshot.Area{Addresses: map[string][]netip.Prefix{}, AltNames: map[string][]string{}}
	there := map[string]bool{}
	for _, i := range c.before.Interfaces {
		there[i.Name] = true
	}
	for _, i := range c.target.Interfaces {
		a.Names = append(a.Names, i.Name)
		a.Names = append(a.Names, i.Ports()...)
		if !there[i.Name] {
			a.Made = append(a.Made, i.Name)
		}
	}
	for _, step := range c.steps {
		addStep(&a, step)
	}
	addAddresses(&a, c)
	addRouting(&a, c)
	slices.Sort(a.Names)
	a.Names = slices.Compact(a.Names)
	return a
}

// addStep adds the devices that a step makes, removes or identifies.
func addStep(a *snapshot.Area, step plan.Step) {
	switch s := step.(type) {
	case plan.Delete:
		a.Removed = append(a.Removed, s.Name)
	case plan.Create:
		a.Made = append(a.Made, s.Interface.Name)
		if pair := s.Interface.Veth; pair != nil && pair.Peer != "" {
			a.Names, a.Made = append(a.Names, pair.Peer), append(a.Made, pair.Peer)
		}
	case plan.Change:
		if s.Interface.MACAddress != "" {
			a.Identified = append(a.Identified, s.Interface.Name)
		}
		for _, alternative := range s.Interface.AltNames {
			if alternative.State != document.Absent {
				a.AltNames[s.Interface.Name] = append(a.AltNames[s.Interface.Name], alternative.Name)
			}
		}
	}
}

// addAddresses adds all addresses of the target: a later step adds again what an earlier one
// has removed.
func addAddresses(a *snapshot.Area, c change) {
	for _, i := range c.target.Interfaces {
		for _, ip := range []*document.IP{i.IPv4, i.IPv6} {
			if ip == nil {
				continue
			}
			for _, one := range ip.Addresses {
				if address, err := netip.ParseAddr(one.IP); err == nil {
					a.Addresses[i.Name] = append(a.Addresses[i.Name], netip.PrefixFrom(address, one.PrefixLength))
				}
			}
		}
	}
}

// addRouting adds the routes and rules that a change adds and removes.
func addRouting(a *snapshot.Area, c change) {
	added := c.added()
	changed := added.and(c.removed())
	a.Routes, a.Added = destinations(changed.Routes), additions(added.Routes)
	for _, rule := range changed.Rules {
		priority := int64(document.DefaultPriority)
		if rule.Priority != nil {
			priority = *rule.Priority
		}
		a.Rules = append(a.Rules, uint32(priority))
	}
}

func destinations(routes []document.Route) (list []snapshot.Destination) {
	for _, a := range additions(routes) {
		list = append(list, a.Destination)
	}
	return list
}

func additions(routes []document.Route) (list []snapshot.Addition) {
	for _, route := range routes {
		prefix, err := netip.ParsePrefix(route.Destination)
		if err != nil {
			continue
		}
		gateway, err := netip.ParseAddr(route.Address)
		if err != nil || gateway.IsUnspecified() {
			gateway = netip.Addr{}
		}
		list = append(
			list,
			snapshot.Addition{
				Destination: snapshot.Destination{Prefix: prefix.Masked(), Table: tableOf(route)},
				Gateway:     &gateway,
			},
		)
	}
	return list
}

func tableOf(route document.Route) uint32 {
	if route.Table == nil || *route.Table <= 0 {
		return unix.RT_TABLE_MAIN
	}
	return uint32(*route.Table)
}
