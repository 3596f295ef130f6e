// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package permit

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
)

// Use is an interface that something on the node needs.
type Use struct {
	// Interface is the device's name.
	Interface string
	// MTU is the smallest one that the user can do with, in bytes; 0: any.
	MTU int
	// VFs is how many virtual functions must stay as they are: the highest number in use
	// + 1; 0: none.
	VFs int
	// VLAN is an id (1 to 4094) on Interface that the user has taken; 0: none.
	VLAN int
	// Addresses are the addresses of Interface that must stay.
	Addresses []netip.Addr
	// By is the user, for people: "pod default/web (interface net1)".
	By string
}

// inUse refuses what takes away something that is used, each with all its users.
func inUse(node node, uses []Use, planned []change) error {
	if len(uses) == 0 {
		return nil
	}
	c := conflicts{users: map[string][]string{}}
	lost := node.lost(planned)
	for _, use := range uses {
		if l, ok := lost[use.Interface]; ok {
			c.add(l.change.step, "it would take "+use.Interface+" away", use)
		}
	}
	for n, d := range planned {
		for _, use := range uses {
			c.add(d.step, node.harm(use, d, planned[n+1:]), use)
		}
	}
	return c.err()
}

// conflicts are reasons to refuse steps, in order, with the users of each.
type conflicts struct {
	reasons []string
	users   map[string][]string
}

// add adds a user to a reason. The reason "" means that nothing conflicts.
func (c *conflicts) add(step plan.Step, reason string, use Use) {
	if reason == "" {
		return
	}
	reason = fmt.Sprintf("%s: %s", step, reason)
	if _, known := c.users[reason]; !known {
		c.reasons = append(c.reasons, reason)
	}
	if !slices.Contains(c.users[reason], use.By) {
		c.users[reason] = append(c.users[reason], use.By)
	}
}

// shownUsers bounds how many users a message names.
const shownUsers = 5

func (c *conflicts) err() error {
	var errs []error
	for _, reason := range c.reasons {
		users := c.users[reason]
		slices.Sort(users)
		words := strings.Join(users[:min(len(users), shownUsers)], ", ")
		if more := len(users) - shownUsers; more > 0 {
			words = fmt.Sprintf("%s and %d more", words, more)
		}
		errs = append(
			errs,
			fmt.Errorf("%w: %s, which is used by %s; remove the users first, or leave this out", ErrInUse, reason, words),
		)
	}
	return errors.Join(errs...)
}

// harm says what a step takes from a use other than the interface itself, "" for nothing.
// later are the changes after it.
func (n node) harm(use Use, d change, later []change) string {
	switch s := d.step.(type) {
	case plan.Change:
		return n.shrinks(use, s.Interface)
	case plan.SetVFs:
		return n.divides(use, s)
	case plan.Create:
		return claims(use, s.Interface.VLAN)
	case plan.SetFamily:
		if s.Name == use.Interface && !s.Enabled && slices.ContainsFunc(use.Addresses, netip.Addr.Is6) {
			return "the IPv6 address of " + s.Name + " would go"
		}
	case plan.SetForwarding:
		return drops(use, s)
	case plan.SetAutomatic:
		return n.unlearns(use, s, later)
	case plan.RemoveAddress:
		ip, err := netip.ParseAddr(s.Address.IP)
		if err == nil && s.Name == use.Interface && slices.Contains(use.Addresses, ip) &&
			!addedAgain(s.Name, s.Address.IP, later) {
			return fmt.Sprintf("the address %s of %s would go", ip, s.Name)
		}
	}
	return ""
}

// drops: users of an interface need its packets forwarded.
func drops(use Use, s plan.SetForwarding) string {
	if s.Name != use.Interface || s.On {
		return ""
	}
	return fmt.Sprintf("packets for pods on %s would be dropped", s.Name)
}

// claims: one VLAN of a device has one user.
func claims(use Use, v *document.VLAN) string {
	if v == nil || v.Base != use.Interface || v.ID == nil || *v.ID != use.VLAN {
		return ""
	}
	return fmt.Sprintf("VLAN %d on %s is taken", use.VLAN, use.Interface)
}

// addedAgain reports whether an address comes back, for example with another prefix length.
func addedAgain(name, address string, later []change) bool {
	return slices.ContainsFunc(later, func(d change) bool {
		s, ok := d.step.(plan.AddAddress)
		return ok && s.Name == name && s.Address.IP == address
	})
}

// unlearns says which address goes that came automatically, "" for none.
func (n node) unlearns(use Use, s plan.SetAutomatic, later []change) string {
	is := n.interfaces[s.Name].IPv4
	if s.Family == document.FamilyIPv6 {
		is = n.interfaces[s.Name].IPv6
	}
	if s.Name != use.Interface || is == nil {
		return ""
	}
	stays := target.Staying(is, &s.IP)
	for _, a := range is.Addresses {
		ip, err := netip.ParseAddr(a.IP)
		if err == nil && a.IsAutomatic() && slices.Contains(use.Addresses, ip) && !slices.Contains(stays, a) &&
			!addedAgain(s.Name, a.IP, later) {
			return fmt.Sprintf("the address %s of %s would go", ip, s.Name)
		}
	}
	return ""
}

// shrinks: the MTU of an interface never exceeds the MTU of the interface below it, and the MTU
// of a bridge never exceeds the MTU of its smallest port.
func (n node) shrinks(use Use, changed document.Interface) string {
	now := n.interfaces[changed.Name].MTU
	if changed.MTU == nil || *changed.MTU >= use.MTU || now != nil && *changed.MTU >= *now {
		return ""
	}
	if !slices.Contains(n.below([]string{use.Interface}), changed.Name) {
		return ""
	}
	return fmt.Sprintf("the MTU of %s must stay at least %d", use.Interface, use.MTU)
}

// divides: the kernel removes all virtual functions to make another number of them.
func (n node) divides(use Use, s plan.SetVFs) string {
	if s.Name != use.Interface || use.VFs == 0 {
		return ""
	}
	var now document.SRIOV
	if e := n.interfaces[s.Name].Ethernet; e != nil && e.SRIOV != nil {
		now = *e.SRIOV
	}
	if count := s.SRIOV.TotalVFs; count != nil && (now.TotalVFs == nil || *count != *now.TotalVFs) {
		return fmt.Sprintf("another number of virtual functions of %s removes those that there are", s.Name)
	}
	for _, vf := range s.SRIOV.VFs {
		at := slices.IndexFunc(now.VFs, func(is document.VF) bool { return is.ID == vf.ID })
		if vf.ID < use.VFs && (at < 0 || changesVF(now.VFs[at], vf)) {
			return fmt.Sprintf("virtual function %d of %s would change", vf.ID, s.Name)
		}
	}
	return ""
}

// changesVF reports whether a function gets a setting that it has not.
func changesVF(now, want document.VF) bool {
	if want.MACAddress == "" || strings.EqualFold(want.MACAddress, now.MACAddress) {
		want.MACAddress = now.MACAddress
	}
	if want.VLANProto == "" {
		want.VLANProto = now.VLANProto
	}
	is, shall := reflect.ValueOf(now), reflect.ValueOf(&want).Elem()
	for at := range shall.NumField() {
		if field := shall.Field(at); field.Kind() == reflect.Pointer && field.IsNil() {
			field.Set(is.Field(at))
		}
	}
	return !reflect.DeepEqual(now, want)
}
