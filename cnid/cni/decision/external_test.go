// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/cni/drivers/addressonly"
	"github.com/alioth-net/alioth/cnid/cni/drivers/netkit"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/store"
)

// newExternal returns a store for a pod that another CNI plugin attaches, with one delegated
// device. The node follows nothing of the VPC.
func newExternal() *decided {
	d := newDecided()
	d.mtu, d.unsynced, d.pod.NetworkProbes = 0, true, true
	d.pod.HostPorts = []store.HostPort{{Protocol: "TCP", HostPort: 8080, Port: 80}}
	d.described.Kind = netif.KindExternal
	device := testrows.Address("blue", "blue1", "10.10.1.20", "node1", d.addresses[0].Holder, "10.10.1.20")
	device.Attachment, device.MAC = "eth1", "00:0d:3a:00:00:01"
	d.addresses = append(d.addresses, device)
	for i := range d.addresses {
		d.addresses[i].External = true
	}
	d.more = []netif.Interface{{
		Name: "eth1", Kind: netif.KindExternal, VPC: "blue", Subnet: "blue1", MAC: device.MAC,
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.10.1.20/24")},
	}}
	return d
}

func TestDecision_OtherCNIPlugin_AddressesOnly(t *testing.T) {
	got := newExternal().decide(t, thePod)
	if len(got.decisions) != 2 {
		t.Fatalf("answer %+v, want two decisions", got)
	}
	first, second := got.decisions[0], got.decisions[1]
	binding := journal.Binding{VPC: "blue", VNI: 20, Subnets: []string{"blue1", "blue1"}, External: true}
	if diff := cmp.Diff(binding, first.Binding); diff != "" || first.Kind != addressonly.Kind || first.MTU != 0 || len(first.Routes) != 0 {
		t.Errorf("first is %+v (-want +got):\n%s", first, diff)
	}
	if len(first.Gateways) != 2 || len(second.Gateways) != 1 {
		t.Errorf("gateways %v and %v, want all: the plugin decides about routes", first.Gateways, second.Gateways)
	}
	if first.Probed || len(first.HostPorts) != 0 {
		t.Errorf("probes and ports of the node are the plugin's, got %+v", first)
	}
	if second.IfName != "eth1" || second.MAC.String() != "00:0d:3a:00:00:01" || first.Mode != "" || second.Mode != ifdriver.ModeDevice {
		t.Errorf("got %+v, %+v; want the second to be a device of the node", first, second)
	}
}

func TestDecision_DriverAndInterfaceKind_Agree(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*decided)
		want   string
	}{
		"Alioth's, for another plugin":  {func(d *decided) { d.release01, d.described.Kind = true, netif.KindPair }, `kind "veth", another CNI plugin: true`},
		"another plugin's, for Alioth":  {func(d *decided) { *d = *newDecided(); d.release01, d.described.Kind = true, netif.KindExternal }, `kind "external", another CNI plugin: false`},
		"the addresses of one disagree": {func(d *decided) { d.addresses[0].External = false }, "disagree about VPC, MAC or driver"},
		"outside of every VPC": {func(d *decided) {
			d.described, d.addresses = physical("eth0"), nil
			d.described.Kind = netif.KindExternal
		}, "has addresses of VPCs only"},
	} {
		d := newExternal()
		d.more = nil
		c.change(d)
		if got := d.decide(t, thePod); !strings.Contains(got.missing, c.want) || len(got.decisions) != 0 {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
}

func TestRebuild_OtherCNIPluginRecord_MatchesDecision(t *testing.T) {
	d := newExternal()
	for _, decided := range d.decide(t, thePod).decisions {
		found := ifdriver.Found{IfName: "eth0", PodUID: "p1"}
		if decided.IfName != "" {
			found.IfName, found.Request = decided.IfName, "eth0"
		}
		rec, err := d.rebuild(t, addressonly.Kind, found)
		if err != nil {
			t.Fatal(err)
		}
		want := journal.Record{
			Identity: journal.Identity{Pod: thePod, Attachment: decided.Attachment}, Binding: decided.Binding,
			Interface: journal.Interface{
				Addrs: decided.Addrs, Gateways: decided.Gateways, MAC: decided.MAC, AltName: decided.AltName, Config: netif.Config{Mode: decided.Mode},
			},
		}
		if diff := cmp.Diff(want, rec, compareByValue); diff != "" {
			t.Errorf("attachment %s (-decided +rebuilt):\n%s", decided.Attachment, diff)
		}
	}
	if rec, err := d.rebuild(t, netkit.Kind, ifdriver.Found{IfName: "eth0", PodUID: "p1"}); err == nil {
		t.Errorf("an interface of Alioth is rebuilt as %+v", rec)
	}
	if rec, err := newDecided().rebuild(t, addressonly.Kind, ifdriver.Found{IfName: "eth0", PodUID: "p1"}); err == nil {
		t.Errorf("an interface of another plugin is rebuilt as %+v", rec)
	}
}
