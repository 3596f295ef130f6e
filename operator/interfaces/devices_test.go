// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package interfaces_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

const fastPool = "vendor.example/fast"

// fast returns a network on virtual functions, on VLAN 300.
func fast(change ...func(*multinet.Network)) *multinet.Network {
	return network(multinet.KindClusterNetwork, "", "fast", append([]func(*multinet.Network){func(n *multinet.Network) {
		n.Type, n.HostDevice, n.DevicePool, n.VLAN = multinet.TypeSRIOV, "", fastPool, 300
	}}, change...)...)
}

// requesting gives a pod devices of the pool of fast.
func requesting(devices int) func(*store.Pod) {
	return func(p *store.Pod) { p.Devices = map[string]int{fastPool: devices, "vendor.example/gpu": 9} }
}

// ownTenant puts a pod in a namespace without the label of a tenant.
func ownTenant(p *store.Pod) { p.Tenant = v1alpha1.NamespaceTenantPrefix + p.Namespace }

func number(n int) *int { return &n }

func TestDeviceInterface_NetworkSettings_Taken(t *testing.T) {
	rate := fast(func(n *multinet.Network) { n.VF = netif.VF{Trust: "on", MaxTxRate: number(100)} })
	desired, refusal := decide(t, `[{"clusterNetwork":"fast","ip":"dynamic"},{"clusterNetwork":"fast"}]`, world(rate), requesting(2))
	if diff := cmp.Diff([]string{"eth0 sriov ClusterNetwork/fast [] IPv4", "eth1 sriov ClusterNetwork/fast [] IPv4 and IPv6"}, short(desired)); refusal != "" ||
		diff != "" {
		t.Fatalf("refused with %q (-want +got):\n%s", refusal, diff)
	}
	want := netif.Config{Pool: fastPool, VLAN: 300, IPv6: netif.IPv6Off, VF: &netif.VF{Trust: "on", MaxTxRate: number(100)}}
	if diff := cmp.Diff(want, desired[1].Link); diff != "" {
		t.Errorf("link (-want +got):\n%s", diff)
	}
}

func TestDeviceSettings_PowerOverOthers_NeedGrant(t *testing.T) {
	def := func(vf netif.VF, resource string) *multinet.Definition {
		d := definition("a", "d", annotations.Target{Kind: annotations.TargetClusterNetwork, Name: "fast"})
		d.VF, d.ResourceName = vf, resource
		return d
	}
	permits := func(settings ...string) *multinet.Grant {
		return &multinet.Grant{Meta: operatortest.Meta("uid-grant", 0), Name: "g", Networks: []string{"a/d"}, Settings: settings}
	}
	trusted := netif.VF{Trust: "on", SpoofCheck: "off"}
	for _, tc := range []struct {
		name         string
		net          *multinet.Network
		def          *multinet.Definition
		grant        *multinet.Grant
		tenant       bool
		want         netif.VF
		reason, text string
	}{
		{name: "none", def: def(netif.VF{}, "")},
		{name: "the resource of the network", def: def(netif.VF{}, fastPool)},
		{name: "another resource", def: def(netif.VF{}, "vendor.example/slow"), reason: v1alpha1.InterfacesInvalidReason, text: `has its devices from "vendor.example/fast"`},
		{
			name: "harmless ones", def: def(netif.VF{MaxTxRate: number(5), LinkState: "enable", SpoofCheck: "on", Trust: "off"}, ""), tenant: true,
			want: netif.VF{MaxTxRate: number(5), LinkState: "enable", SpoofCheck: "on", Trust: "off"},
		},
		{name: "trust without a grant", def: def(trusted, ""), reason: v1alpha1.DelegationNotGrantedReason, text: "sets spoofchk, trust, and no DelegationGrant permits it"},
		{name: "trust with half a grant", def: def(trusted, ""), grant: permits("trust"), reason: v1alpha1.DelegationNotGrantedReason, text: "spec.settings"},
		{name: "trust with a grant", def: def(trusted, ""), grant: permits("trust", "spoofchk"), want: netif.VF{Trust: "on", SpoofCheck: "off"}},
		{name: "a tenant with a grant", def: def(trusted, ""), grant: permits("trust", "spoofchk"), tenant: true, reason: v1alpha1.DelegationNotGrantedReason, text: "pods of tenants can't have"},
		{name: "a guaranteed rate", def: def(netif.VF{MinTxRate: number(1)}, ""), reason: v1alpha1.DelegationNotGrantedReason, text: "min_tx_rate"},
		{name: "a priority", def: def(netif.VF{QoS: number(7)}, ""), reason: v1alpha1.DelegationNotGrantedReason, text: "vlanQoS"},
		{name: "another sort of tag", def: def(netif.VF{Proto: "802.1ad"}, ""), reason: v1alpha1.DelegationNotGrantedReason, text: "vlanProto"},
		{
			name: "a limit of the network", net: fast(func(n *multinet.Network) { n.VF.MaxTxRate = number(5) }), def: def(netif.VF{MaxTxRate: number(0)}, ""),
			reason: v1alpha1.InterfacesInvalidReason, text: `the network has a value for "max_tx_rate"`,
		},
		{
			name: "a priority without a tag", net: fast(func(n *multinet.Network) { n.VLAN = 0 }), def: def(netif.VF{QoS: number(7)}, ""), grant: permits("vlanQoS"),
			reason: v1alpha1.InterfacesInvalidReason, text: "need a VLAN",
		},
		{
			name: "a network of another type", net: fast(func(n *multinet.Network) { n.Type, n.HostDevice, n.VLAN = "macvlan", "ens4", 0 }), def: def(netif.VF{LinkState: "auto"}, ""),
			reason: v1alpha1.InterfacesInvalidReason, text: "is not of type sriov: remove the annotation",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.net == nil {
				tc.net = fast()
			}
			rows := world(tc.net, tc.def)
			if tc.grant != nil {
				rows = append(rows, tc.grant)
			}
			change := []func(*store.Pod){requesting(1), selecting("d")}
			if !tc.tenant {
				change = append(change, ownTenant)
			}
			desired, refusal := decide(t, "", rows, change...)
			if tc.reason != "" {
				if !strings.HasPrefix(refusal, tc.reason+": ") || !strings.Contains(refusal, tc.text) {
					t.Errorf("refused with %q, want %s with %q", refusal, tc.reason, tc.text)
				}
				return
			}
			if refusal != "" {
				t.Fatalf("refused with %q", refusal)
			}
			if diff := cmp.Diff(&tc.want, desired[1].Link.VF); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}
