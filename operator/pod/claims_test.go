// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"encoding/json"
	"net/netip"
	"slices"
	"testing"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// lan returns the DanmNet a/lan on ens4.
func lan() *multinet.Network {
	return &multinet.Network{
		Meta: store.Meta{UID: "uid-lan"}, Ref: multinet.Ref{Group: "danm.io", Kind: multinet.KindDanmNet, Namespace: "a", Name: "lan"},
		Type: "macvlan", HostDevice: "ens4", VLAN: 100, Ready: true,
		V4: multinet.Range{
			Prefix: netip.MustParsePrefix("10.9.0.0/24"),
			Pool:   store.AddrRange{First: netip.MustParseAddr("10.9.0.10"), Last: netip.MustParseAddr("10.9.0.20")},
		},
	}
}

// onLAN returns an attachment of a pod to it, without addresses.
func onLAN(change ...func(*netif.Interface)) netif.Interface {
	a := netif.Interface{
		Name: "eth0", Kind: "macvlan", Outside: "DanmNet/a/lan", OutsideUID: "uid-lan", Link: &netif.Config{Parent: "ens4", VLAN: 100, IPv6: netif.IPv6Off},
	}
	for _, f := range change {
		f(&a)
	}
	return a
}

// bare returns a source of the interface eth0 in it, without addresses.
func bare(store.ReadTx, *store.Pod) ([]Desired, *tenancy.Refusal) {
	return []Desired{{Interface: "eth0", Kind: "macvlan", Binding: Binding{Outside: lan().Reference()}}}, nil
}

// toldPod returns a pod a/p with this allocation status.
func toldPod(t *testing.T, list ...netif.Interface) *store.Pod {
	t.Helper()
	pod := operatortest.Pod("blue", "a", "p", "", "")
	text, err := annotations.FormatAttachments(list)
	if err != nil {
		t.Fatal(err)
	}
	pod.Attachments, pod.NetworkReady, pod.Reason = text, true, v1alpha1.AttachedReason
	return pod
}

// TestDecide_AttachmentClaimMissing_DecidedAnew: a writer of the status of a pod may have
// written the annotation, even if it is as the network gives it.
func TestDecide_AttachmentClaimMissing_DecidedAnew(t *testing.T) {
	for name, change := range map[string]func(*netif.Interface){
		"as the network is":             func(*netif.Interface) {},
		"with an address of it":         func(a *netif.Interface) { a.Addresses = operatortest.Prefixes("10.9.0.12/24") },
		"another VLAN":                  func(a *netif.Interface) { a.Link.VLAN = 200 },
		"another device":                func(a *netif.Interface) { a.Link.Parent = "eth0" },
		"another driver":                func(a *netif.Interface) { a.Kind = "ipvlan" },
		"no link":                       func(a *netif.Interface) { a.Link = nil },
		"another network":               func(a *netif.Interface) { a.Outside, a.OutsideUID = "DanmNet/b/lan", "uid-foreign" },
		"a configuration of plugins":    func(a *netif.Interface) { a.Delegate = &netif.Delegate{Conf: json.RawMessage(`{}`)} },
		"a network that is gone":        func(a *netif.Interface) { a.OutsideUID = "uid-gone" },
		"a network of an older release": func(a *netif.Interface) { a.Outside, a.OutsideUID = "rack", "" },
	} {
		t.Run(name, func(t *testing.T) {
			pod := toldPod(t, onLAN(change))
			operatortest.New(t, lan(), pod).View(func(tx store.ReadTx) {
				rows, err := rowsToKeep(tx, pod)
				if err != nil || len(rows) > 0 {
					t.Errorf("claims %+v, error %v", rows, err)
				}
				d := decide(tx, pod, []Source{bare})
				if w := only(t, d); d.verb != assign || w.Kind != "macvlan" || w.Outside != lan().Reference() || len(w.IPs) > 0 || w.Recorded != nil {
					t.Errorf("decided %+v", d)
				}
			})
		})
	}
}

func TestDecide_NetworkChanged_AttachmentClaimStays(t *testing.T) {
	pod := toldPod(t, onLAN())
	all, err := attachmentRows(pod.Attachments)
	if err != nil {
		t.Fatal(err)
	}
	held := &multinet.Claim{
		Meta: store.Meta{UID: "c"}, Namespace: "a", Name: v1alpha1.AttachmentClaimName(pod.UID, "eth0"), PodName: "p", PodUID: pod.UID, Node: pod.Node,
		Interface: "eth0", Driver: "macvlan", Network: all[0].Network, Config: &all[0].Config, Interfaces: all[0].Interfaces, ConfigHash: all[0].ConfigHash,
	}
	s := operatortest.New(t, pod)
	if err := s.Update(func(tx store.Tx) error { return multinet.PutClaim(tx, held) }); err != nil {
		t.Fatal(err)
	}
	s.View(func(tx store.ReadTx) {
		if d := decide(tx, pod, nil); d.verb != leave {
			t.Errorf("decided %+v", d)
		}
	})
}

// The network of plugins does not show which plugins run, but the claim of the operator does.
func TestDecide_PluginInterfaceAddressLost_ClaimedAgain(t *testing.T) {
	pod := toldPod(t, onLAN(func(a *netif.Interface) {
		a.Kind, a.Addresses = netif.KindDelegate, operatortest.Prefixes("10.9.0.12/24")
		a.Delegate = &netif.Delegate{File: &netif.DelegateFile{NetworkID: "lan", Type: "bridge"}}
	}))
	all, err := attachmentRows(pod.Attachments)
	if err != nil {
		t.Fatal(err)
	}
	held := &multinet.Claim{
		Meta: store.Meta{UID: "c"}, Namespace: "a", Name: v1alpha1.AttachmentClaimName(pod.UID, "eth0"), PodName: "p", PodUID: pod.UID, Node: pod.Node,
		Interface: "eth0", Driver: netif.KindDelegate, Network: all[0].Network, ConfigHash: all[0].ConfigHash,
	}
	for name, claimed := range map[string]bool{"with its claim": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			s := operatortest.New(t, pod)
			if claimed {
				if err := s.Update(func(tx store.Tx) error { return multinet.PutClaim(tx, held) }); err != nil {
					t.Fatal(err)
				}
			}
			s.View(func(tx store.ReadTx) {
				if d := decide(tx, pod, nil); (d.verb == restore && len(d.desired) == 1) != claimed {
					t.Errorf("decided %+v", d)
				}
			})
		})
	}
}

func TestDecide_InterfaceWithoutAddresses_AddressReleased(t *testing.T) {
	pod := toldPod(t, onLAN())
	unassigned := operatortest.Pod("blue", "a", "p", "", "")
	for name, p := range map[string]*store.Pod{"assigned": pod, "to be assigned": unassigned} {
		t.Run(name, func(t *testing.T) {
			stray := operatortest.Address("uid-lan.net", "", "10.9.0.12", p)
			operatortest.New(t, lan(), p, stray).View(func(tx store.ReadTx) {
				if d := decide(tx, p, []Source{bare}); len(d.surplus) != 1 {
					t.Errorf("decided %+v", d)
				}
			})
		})
	}
}

func TestDecide_APIRestored_SandboxKeepsNetworkAddress(t *testing.T) {
	pod := operatortest.Pod("blue", "a", "p", "", "")
	pod.IPs = operatortest.Addrs("10.9.0.12")
	two := func(tx store.ReadTx, _ *store.Pod) ([]Desired, *tenancy.Refusal) {
		var all []Desired
		for _, name := range []string{"eth0", "eth1"} {
			all = append(all, Desired{
				Interface: name, Kind: "macvlan", Families: ipam.Families{V4: true},
				Binding: Binding{Outside: lan().Reference(), Range: ipam.RangeOf(tx, multinet.ByDomain(tx, "uid-lan.net"))},
			})
		}
		return all, nil
	}
	operatortest.New(t, lan(), pod).View(func(tx store.ReadTx) {
		d := decide(tx, pod, []Source{two})
		if len(d.desired) != 2 || len(d.desired[0].Prefer) != 1 || d.desired[0].Prefer[0] != pod.IPs[0] || len(d.desired[1].Prefer) != 0 {
			t.Errorf("decided %+v", d)
		}
	})
}

// Alioth decides neither addresses nor MAC of an interface that plugins make, but the
// default routes that a pod requests.
func TestDescribe_PluginInterface_OnlyRequestedDefaultRoutes(t *testing.T) {
	p := operatortest.Pod("ns:a", "a", "p", "n1", "")
	routes := []netif.Route{{Dst: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("10.9.0.1")}}
	for name, delegate := range map[string]*netif.Delegate{
		"a configuration":    {Conf: json.RawMessage(`{}`)},
		"a file of the node": {File: &netif.DelegateFile{Name: "lab"}},
	} {
		w := Desired{Interface: "net1", Kind: netif.KindDelegate, Delegate: delegate}
		if got := outside(p, w, nil); got.Link != nil || got.MAC != "" {
			t.Errorf("%s, no default route: %+v", name, got)
		}
		w.Link.Routes = routes
		if got := outside(p, w, nil); got.MAC != "" || got.Link == nil || !slices.Equal(got.Link.Routes, routes) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Nodes read a rule without a source as a rule for the addresses that the plugins choose. With
// Alioth's addresses, and without addresses, a rule has its address or is not there.
func TestDescribe_StaticTypeRule_HasInterfaceAddress(t *testing.T) {
	p := operatortest.Pod("ns:a", "a", "p", "n1", "")
	lan := lan()
	rule := netif.Rule{From: netip.MustParsePrefix("0.0.0.0/32"), Table: 78}
	row := &store.Address{IP: netip.MustParseAddr("10.9.0.12"), MAC: "0a:00:00:00:00:01"}
	for name, tc := range map[string]struct {
		inject bool
		rows   []*store.Address
		want   []string
	}{
		"an address of Alioth":      {true, []*store.Address{row}, []string{"10.9.0.12/32"}},
		"no address":                {true, nil, nil},
		"an address of the plugins": {false, nil, []string{"0.0.0.0/32"}},
	} {
		operatortest.New(t, lan).View(func(tx store.ReadTx) {
			got := outside(p, Desired{
				Interface: "net1", Kind: netif.KindDelegate, Binding: Binding{Outside: lan.Reference(), Range: ipam.RangeOf(tx, lan)},
				Delegate: &netif.Delegate{File: &netif.DelegateFile{NetworkID: "lab", Inject: tc.inject}},
				Link:     netif.Config{Rules: []netif.Rule{rule}},
			}, tc.rows)
			var sources []string
			for _, r := range got.Link.Rules {
				sources = append(sources, r.From.String())
			}
			if !slices.Equal(sources, tc.want) {
				t.Errorf("%s: rules from %v, want %v", name, sources, tc.want)
			}
		})
	}
}
