// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
)

// Check returns a desired state with names of interfaces in place of alternative ones, and why
// it must not be applied, all reasons at once with the paths of the fields: it wants what
// belongs to others, or would take from them.
func (h *Host) Check(ctx context.Context, desired *document.State) (*document.State, error) {
	now, err := h.kernel.Show(ctx)
	if err != nil {
		return nil, err
	}
	taken, err := h.hide(now)
	if err != nil {
		return nil, err
	}
	if desired, err = target.KernelNames(desired, now); err != nil {
		return nil, err
	}
	var errs []error
	for n, i := range desired.Interfaces {
		errs = append(errs, h.others.check(fmt.Sprintf("interfaces[%d]", n), i, taken))
	}
	return desired, errors.Join(append(errs, h.lacks(ctx, desired)...)...)
}

// lacks are the errors about types of interfaces that the kernel does not have. Each type is
// asked for once.
func (h *Host) lacks(ctx context.Context, desired *document.State) (errs []error) {
	asked := map[string]error{}
	for n, i := range desired.Interfaces {
		if i.Type == "" || i.State == document.Absent || i.State == document.Ignore || i.State == document.Down {
			continue
		}
		err, known := asked[i.Type]
		if !known {
			err = h.kernel.Lacks(ctx, i.Type)
			asked[i.Type] = err
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("interfaces[%d].type: %s: %w", n, i.Type, err))
		}
	}
	return errs
}

// check checks one interface of a desired state.
func (o Others) check(path string, i document.Interface, taken hidden) error {
	stops := i.State == document.Down || i.State == document.Inactive || i.State == document.Absent
	switch {
	case i.State == document.Ignore:
		return nil
	case taken.interfaces[i.Name] && i.State != document.Absent:
		return fmt.Errorf("%s.name: %s: %w; choose another name", path, i.Name, ErrHidden)
	case stops && slices.Contains(taken.uplinks, i.Name):
		return fmt.Errorf("%s.state: %s: %w", path, i.State, ErrUplink)
	case stops && (taken.four[i.Name] || taken.six[i.Name]):
		return fmt.Errorf("%s.state: %s: %s has addresses that belong to others: leave it up", path, i.State, i.Name)
	case stops:
		return nil
	}
	errs := checkAltNames(path+".alt-names", i.AltNames, taken)
	if disabled(i.IPv6) && taken.six[i.Name] {
		errs = append(
			errs,
			fmt.Errorf("%s.ipv6.enabled: false: %s has addresses that belong to others: leave IPv6 enabled", path, i.Name),
		)
	}
	return errors.Join(append(errs, o.checkAddresses(path+".ipv4", i.IPv4), o.checkAddresses(path+".ipv6", i.IPv6))...)
}

func checkAltNames(path string, list []document.AltName, taken hidden) (errs []error) {
	for n, a := range list {
		if a.State != document.Absent && taken.interfaces[a.Name] {
			errs = append(errs, fmt.Errorf("%s[%d].name: %s: %w; choose another name", path, n, a.Name, ErrHidden))
		}
	}
	return errs
}

func disabled(ip *document.IP) bool { return ip != nil && ip.Enabled != nil && !*ip.Enabled }

func (o Others) checkAddresses(path string, ip *document.IP) error {
	if ip == nil {
		return nil
	}
	var errs []error
	for n, a := range ip.Addresses {
		if o.hasAddress(a) {
			errs = append(errs, fmt.Errorf("%s.address[%d].ip: %s: %w; choose another address", path, n, a.IP, ErrAddress))
		}
	}
	return errors.Join(errs...)
}
