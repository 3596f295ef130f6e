// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// FuzzHostLinkNames: a name has one meaning, and each number on a device one name.
func FuzzHostLinkNames(f *testing.F) {
	f.Add("vxlan-100.eth0", "eth0", uint32(100))
	f.Add("vlan-4094.0.626f6e64302e31", "bond0.1", uint32(4094))
	f.Add("vlan-0100.eth0", "0.61", uint32(1))
	f.Fuzz(func(t *testing.T, name, device string, vni uint32) {
		if linkType, vni, device, ok := v1alpha1.ParseHostLinkName(name); ok && v1alpha1.HostLinkName(linkType, vni, device) != name {
			t.Errorf("%q is read as %s %d on %q", name, linkType, vni, device)
		}
		vni %= 1 << 24
		made := v1alpha1.HostLinkName(v1alpha1.HostLinkVLAN, vni, device)
		linkType, number, parent, ok := v1alpha1.ParseHostLinkName(made)
		if !ok || linkType != v1alpha1.HostLinkVLAN || number != vni || parent != device {
			t.Errorf("%q becomes %q, which is read as %s %d on %q, %t", device, made, linkType, number, parent, ok)
		}
	})
}
