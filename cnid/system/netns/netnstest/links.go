// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netnstest

import (
	"net"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

// Links returns the names of all devices but lo, sorted.
func (n *Namespace) Links(t testing.TB) []string {
	t.Helper()
	names := []string{}
	n.Do(t, func() error {
		list, err := net.Interfaces()
		for _, l := range list {
			if l.Name != "lo" {
				names = append(names, l.Name)
			}
		}
		return err
	})
	slices.Sort(names)
	return names
}

// Link returns a device. A missing device ends the test.
func (n *Namespace) Link(t testing.TB, name string) (link netlink.Link) {
	t.Helper()
	n.Do(t, func() (err error) {
		link, err = netlink.LinkByName(name)
		return err
	})
	return link
}

// Rules returns the number of routing rules of both families.
func (n *Namespace) Rules(t testing.TB) (count int) {
	t.Helper()
	n.Do(t, func() error {
		list, err := netlink.RuleList(netlink.FAMILY_ALL)
		count = len(list)
		return err
	})
	return count
}

// OnLink returns a function that changes a device of the calling thread's namespace, up to
// the first error.
func OnLink(device string, do ...func(netlink.Link) error) func() error {
	return func() error {
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		for _, f := range do {
			if err := f(link); err != nil {
				return err
			}
		}
		return nil
	}
}
