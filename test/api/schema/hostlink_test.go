// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func hostLink() *v1alpha1.HostLink {
	return &v1alpha1.HostLink{
		ObjectMeta: named(v1alpha1.HostLinkName(v1alpha1.HostLinkVLAN, 100, "ens4")),
		Spec:       v1alpha1.HostLinkSpec{Type: v1alpha1.HostLinkVLAN, VNI: 100, Device: "ens4", NetworkID: "red", MTU: 1400},
	}
}

// TestHostLink_WrongValue_Refused: the name is the identity, so no two objects stand for one link.
func TestHostLink_WrongValue_Refused(t *testing.T) {
	const naming, fixed = "metadata.name must be", "can't change"
	on := func(device string) func(*v1alpha1.HostLink) {
		return func(l *v1alpha1.HostLink) {
			l.Spec.Device, l.Name = device, v1alpha1.HostLinkName(l.Spec.Type, uint32(l.Spec.VNI), device)
		}
	}
	checkCreations(t, hostLink, []creation[*v1alpha1.HostLink]{
		{"as it is", nil, ""},
		{"a device itself", func(l *v1alpha1.HostLink) {
			l.Spec, l.Name = v1alpha1.HostLinkSpec{Type: v1alpha1.HostLinkDevice, Device: "ens4"}, "device-0.ens4"
		}, ""},
		{"a device with a number", func(l *v1alpha1.HostLink) { l.Spec.Type, l.Name = v1alpha1.HostLinkDevice, "device-100.ens4" }, "0 for a device"},
		{"a VLAN without a number", func(l *v1alpha1.HostLink) { l.Spec.VNI, l.Name = 0, "vlan-0.ens4" }, "0 for a device"},
		{"a device that is no DNS label", on("bond0.100"), ""},
		{"a device with capital letters", on("ETH0"), ""},
		{"a device with a long name", on("abcdefghijklmnop"), "Too long"},
		{"a name of its own", func(l *v1alpha1.HostLink) { l.Name = "red" }, naming},
		{"the name of another device", func(l *v1alpha1.HostLink) { l.Name = "vlan-100.ens5" }, naming},
		{"the name of another number", func(l *v1alpha1.HostLink) { l.Name = "vlan-101.ens4" }, naming},
		{"a number with a zero in front", func(l *v1alpha1.HostLink) { l.Name = "vlan-0100.ens4" }, naming},
		{"a device in hexadecimal that needs none", func(l *v1alpha1.HostLink) { l.Name = "vlan-100.0.656e7334" }, naming},
		{"the name of another type", func(l *v1alpha1.HostLink) { l.Name = "vxlan-100.ens4" }, naming},
		{"a VLAN ID that is too large", func(l *v1alpha1.HostLink) { l.Spec.VNI, l.Name = 4095, "vlan-4095.ens4" }, "a VLAN ID is at most 4094"},
		{"another type", func(l *v1alpha1.HostLink) { l.Spec.Type, l.Name = "geneve", "geneve-100.ens4" }, "Unsupported value"},
	})
	checkUpdates(t, hostLink, []update[*v1alpha1.HostLink]{
		{name: "another MTU", mutate: func(l *v1alpha1.HostLink) { l.Spec.MTU = 0 }, want: ""},
		{name: "another network names it", mutate: func(l *v1alpha1.HostLink) { l.Spec.NetworkID = "blue" }, want: ""},
		{name: "another number", mutate: func(l *v1alpha1.HostLink) { l.Spec.VNI = 101 }, want: fixed},
		{name: "another device", mutate: func(l *v1alpha1.HostLink) { l.Spec.Device = "ens5" }, want: fixed},
	})
}
