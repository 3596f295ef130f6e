// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel_test

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// TestKernel_MissingTypes_Listed before a device of them is made.
func TestKernel_MissingTypes_Listed(t *testing.T) {
	for _, made := range []struct {
		document.Interface
		module string
	}{
		{document.Interface{Type: document.VethPair, Veth: &document.Veth{Peer: "peer"}}, "veth"},
		{document.Interface{Type: document.Bond, Bond: &document.LinkAggregation{Mode: "active-backup"}}, "bonding"},
		{document.Interface{Type: document.LinuxBridge}, "bridge"},
		{document.Interface{Type: document.Dummy}, "dummy"},
		{document.Interface{Type: document.VLANType, VLAN: &document.VLAN{Base: "a", ID: new(5)}}, "8021q"},
		{document.Interface{Type: document.VXLANType, VXLAN: &document.VXLAN{ID: new(5)}}, "vxlan"},
		{document.Interface{Type: document.VRFType, VRF: &document.VRF{Table: new(int64(5))}}, "vrf"},
		{document.Interface{Type: document.MACVLANType, MACVLAN: &document.MACVLAN{Base: "a", Mode: "bridge"}}, "macvlan"},
		{document.Interface{Type: document.IPVLANType, IPVLAN: &document.IPVLAN{Base: "a", Mode: "l2"}}, "ipvlan"},
	} {
		t.Run(made.Type, func(t *testing.T) {
			k, n := open(t)
			do(t, k, pair())
			before := n.Links(t)
			lacks := k.Lacks(t.Context(), made.Type)
			if lacks != nil &&
				(!errors.Is(lacks, kernel.ErrLacks) || !strings.Contains(lacks.Error(), "load the module "+made.module+", or use a kernel with CONFIG_")) {
				t.Errorf("got %v", lacks)
			}
			want(t, n.Links(t), before)
			made.Name = "x"
			err := k.Do(t.Context(), plan.Create{Interface: made.Interface})
			if (lacks != nil) != errors.Is(err, unix.EOPNOTSUPP) || lacks == nil && err != nil {
				t.Errorf("it tells %v, and a device ends with %v", lacks, err)
			}
		})
	}
	k, _ := open(t)
	for _, other := range []string{document.Ethernet, document.Loopback, "ovs-bridge", ""} {
		if err := k.Lacks(t.Context(), other); err != nil {
			t.Errorf("%q: %v", other, err)
		}
	}
}
