// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"context"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// altNames are the alternative names of a device, sorted.
func (l link) altNames() (list []document.AltName) {
	for kind, name := range l.Get(unix.IFLA_PROP_LIST).All() {
		if kind == unix.IFLA_ALT_IFNAME {
			list = append(list, document.AltName{Name: unix.ByteSliceToString(name)})
		}
	}
	slices.SortFunc(list, func(a, b document.AltName) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// changeAltNames adds alternative names, and removes those that are absent.
func (k *Kernel) changeAltNames(ctx context.Context, l link, list []document.AltName) error {
	has := l.altNames()
	var added, removed []string
	for _, a := range list {
		there := slices.Contains(has, document.AltName{Name: a.Name})
		switch {
		case a.State == document.Absent && there:
			removed = append(removed, a.Name)
		case a.State != document.Absent && !there:
			added = append(added, a.Name)
		}
	}
	if err := k.properties(ctx, unix.RTM_DELLINKPROP, 0, l, removed); err != nil {
		return err
	}
	return k.properties(ctx, unix.RTM_NEWLINKPROP, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_APPEND, l, added)
}

// properties asks for a change of alternative names, if there are any.
func (k *Kernel) properties(ctx context.Context, kind, flags int, l link, names []string) error {
	if len(names) == 0 {
		return nil
	}
	list := nl.NewRtAttr(unix.IFLA_PROP_LIST|unix.NLA_F_NESTED, nil)
	for _, name := range names {
		list.AddRtAttr(unix.IFLA_ALT_IFNAME, nl.ZeroTerminated(name))
	}
	return k.tell(ctx, kind, flags, l.header(), list)
}

// NameOf returns the name of the device that has a name or an alternative name. Without such a
// device it is what was asked for.
func (k *Kernel) NameOf(ctx context.Context, name string) (string, error) {
	if name == "" || len(name) > document.LongestAltName {
		return name, nil // No device has such a name.
	}
	l, err := k.found(ctx, zeroEnded(unix.IFLA_ALT_IFNAME, name))
	switch {
	case err != nil:
		return name, err
	case l.name == "":
		return name, nil
	default:
		return l.name, nil
	}
}
