// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
)

// TestDeviceGroup_PodHostEnds_SetOnlyThere begins with devices of an earlier
// release, and then has another program change groups.
func TestDeviceGroup_PodHostEnds_SetOnlyThere(t *testing.T) {
	const attaching = "alv00000000beef" // is not in the state yet
	n := newNode(t)
	s := n.state()
	n.in(t, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.Group = attaching, hostdev.PodGroup
		return errors.Join(netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "attaching"}), n.host.Recognize(s.Pods))
	})
	n.apply(t, s)
	want := map[string]uint32{podDevice: hostdev.PodGroup, podDevice2: hostdev.PodGroup, attaching: hostdev.PodGroup, "eth0": 0}
	n.wantGroups(t, want)
	if list := n.host.Repaired(); len(list) != 0 {
		t.Errorf("at first there is nothing to repair: %v", list)
	}
	n.in(t, func() error {
		return errors.Join(setGroup(podDevice, 0), setGroup("eth0", hostdev.PodGroup), n.host.Recognize(s.Pods))
	})
	n.wantGroups(t, want)
	if list := n.host.Repaired(); len(list) != 2 {
		t.Errorf("repaired %v, want both devices", list)
	}
}

func setGroup(device string, group uint32) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	return netlink.LinkSetGroup(link, int(group))
}

func (n *node) wantGroups(t *testing.T, want map[string]uint32) {
	t.Helper()
	n.in(t, func() error {
		for device, group := range want {
			link, err := netlink.LinkByName(device)
			if err != nil {
				return err
			}
			if has := link.Attrs().Group; has != group {
				t.Errorf("the group of %s is %d, want %d", device, has, group)
			}
		}
		return nil
	})
}
