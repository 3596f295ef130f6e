// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/attachment/attachmenttest"
	"github.com/alioth-net/alioth/cnid/cni/drivers/netkit"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// compareByValue compares addresses, which have no exported fields.
var compareByValue = cmp.Options{
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
}

// physical returns an attachment to a network outside of every VPC, as an annotation has it.
func physical(name string, addrs ...string) netif.Interface {
	described := netif.Interface{Name: name, Kind: string(attachmenttest.Kind), Outside: "physical", OutsideUID: "uid-physical"}
	for _, addr := range addrs {
		described.Addresses = append(described.Addresses, netip.MustParsePrefix(addr))
	}
	return described
}

// TestDecision_ClaimOfOthers_NothingAttached: without a claim of the operator for this pod, the pod
// gets no interface.
func TestDecision_ClaimOfOthers_NothingAttached(t *testing.T) {
	claimed := physical("eth0", "198.51.100.7/24")
	claimed.Link = &netif.Config{Parent: "ens4", MTU: 1400}
	change := func(f func(*multinet.Claim)) func(*testing.T, store.Tx) {
		return func(t *testing.T, tx store.Tx) {
			t.Helper()
			row := *multinet.GetClaim(tx, "ns", "p1.eth0")
			row.ResourceVersion = "2"
			f(&row)
			if err := multinet.PutClaim(tx, &row); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name, want string
		rows       func(*testing.T, store.Tx)
	}{
		{"the claim of a pod on another node", "have not arrived yet", change(func(c *multinet.Claim) { c.Node = "node2" })},
		{"the claim of a pod before", "have not arrived yet", change(func(c *multinet.Claim) { c.PodUID = "p0" })},
		{"the claim of another pod", "have not arrived yet", change(func(c *multinet.Claim) { c.PodName = "p2" })},
		{"a claim for another driver", "contradicts itself", change(func(c *multinet.Claim) { c.Driver = "ipvlan" })},
		{"a claim that is being deleted", "have not arrived yet", change(func(c *multinet.Claim) { c.Deleting = true })},
		{"an address that another pod holds", "Address object of 198.51.100.7", func(t *testing.T, tx store.Tx) {
			t.Helper()
			row := *store.AddressByIP(tx, "uid-physical.net", netip.MustParseAddr("198.51.100.7"))
			row.ResourceVersion, row.Holder.UID = "2", "p2"
			if err := store.PutAddress(tx, &row); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDecided()
			d.described, d.addresses = claimed, nil
			s := newRows(t)
			d.fill(t, s)
			if err := s.Update(func(tx store.Tx) error { c.rows(t, tx); return nil }); err != nil {
				t.Fatal(err)
			}
			if got := d.ask(s, thePod); got.decisions != nil || !strings.Contains(got.missing, c.want) {
				t.Errorf("answer %+v, want %q", got, c.want)
			}
		})
	}
}

// TestDecide_ForgedElement_ClaimDecides: the annotation has no part in an interface outside of VPCs.
func TestDecide_ForgedElement_ClaimDecides(t *testing.T) {
	claimed := physical("eth0", "198.51.100.7/24")
	claimed.Link = &netif.Config{Parent: "ens4", MTU: 1400}
	for name, forge := range map[string]func(*netif.Interface){
		"nothing":               func(*netif.Interface) {},
		"another tenant's VLAN": func(a *netif.Interface) { a.Link = &netif.Config{Parent: "ens4", VLAN: 200} },
		"another device":        func(a *netif.Interface) { a.Link = &netif.Config{Parent: "ens5", MTU: 1400} },
		"another address":       func(a *netif.Interface) { a.Addresses = physical("", "198.51.100.8/24").Addresses },
		"another network":       func(a *netif.Interface) { a.OutsideUID = "uid-theirs" },
		"another driver":        func(a *netif.Interface) { a.Kind = "ipvlan" },
		"plugins": func(a *netif.Interface) {
			a.Delegate = &netif.Delegate{Conf: json.RawMessage(`{"plugins":[{"type":"host-device"}]}`)}
		},
	} {
		d := newDecided()
		d.described, d.addresses = claimed, nil
		s := newRows(t)
		d.fill(t, s)
		forged := claimed
		forge(&forged)
		err := s.Update(func(tx store.Tx) error {
			text, err := annotations.FormatAttachments([]netif.Interface{forged})
			d.pod.Attachments, d.pod.ResourceVersion = text, "3"
			return errors.Join(err, store.PutPod(tx, &d.pod))
		})
		if err != nil {
			t.Fatal(err)
		}
		got := d.ask(s, thePod)
		if len(got.decisions) != 1 {
			t.Fatalf("%s: answer %+v", name, got)
		}
		one := got.decisions[0]
		if one.Parent != "ens4" || one.MTU != 1400 || one.VLAN != 0 || one.Delegate != nil || one.Kind != attachmenttest.Kind ||
			one.Addrs[0] != claimed.Addresses[0] {
			t.Errorf("%s: decided %+v", name, one)
		}
	}
}

func TestDecide_ClaimOfRelease01_WaitsForItsConfiguration(t *testing.T) {
	d := newDecided()
	d.described, d.addresses = physical("eth0", "198.51.100.7/24"), nil
	s := newRows(t)
	d.fill(t, s)
	err := s.Update(func(tx store.Tx) error {
		row := *multinet.GetClaim(tx, thePod.Namespace, v1alpha1.AttachmentClaimName(thePod.UID, "eth0"))
		row.Config, row.ResourceVersion = nil, "2"
		return multinet.PutClaim(tx, &row)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.ask(s, thePod); got.decisions != nil || !strings.Contains(got.missing, "of release 0.1") {
		t.Errorf("answer %+v", got)
	}
}

func TestDecision_AttachmentKind_NodeChoiceOrNamedDriver(t *testing.T) {
	for name, want := range map[string]ifdriver.Kind{netif.KindPair: netkit.Kind, "netkit": netkit.Kind} {
		d := newDecided()
		d.release01, d.described.Kind = true, name
		if got := d.decide(t, thePod); got.missing != "" || got.decisions[0].Kind != want {
			t.Errorf("kind %s: %+v, want %s", name, got, want)
		}
	}
}

func TestDecision_UnfitKind_RefusedAtOnce(t *testing.T) {
	cases := []struct {
		name   string
		change func(*netif.Interface)
		want   string
	}{
		{"unknown", func(a *netif.Interface) { a.Kind = "bond" }, `kind "bond", and node node1 has the kinds bridge, external, ipvlan, macvlan, netkit, sriov, veth`},
		{"a device in a VPC", func(a *netif.Interface) { a.Kind = "sriov" }, `kind "sriov" has no datapath`},
		{"a device without a pool", func(a *netif.Interface) { a.Kind, a.Outside, a.VPC = "sriov", "physical", "" }, "whether it is a device"},
		{"a pool for no device", func(a *netif.Interface) {
			a.Kind, a.Outside, a.VPC, a.Link = "macvlan", "physical", "", &netif.Config{Pool: "x/vf"}
		}, "whether it is a device"},
		{"none", func(a *netif.Interface) { a.Kind = "" }, `kind ""`},
		{"a pair outside of every VPC", func(a *netif.Interface) { a.Outside, a.VPC = "physical", "" }, `outside of every VPC, and kind "veth"`},
		{"in a VPC without a datapath", func(a *netif.Interface) { a.Kind = "bridge" }, `kind "bridge" has no datapath`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := newDecided()
			d.release01 = true // the operator of this release writes no kind for interfaces in VPCs
			if c.change(&d.described); d.described.Outside != "" {
				d.addresses, d.described.OutsideUID = nil, "uid-physical"
			}
			if got := d.decide(t, thePod); !strings.Contains(got.missing, c.want) || !got.elsewhere || got.decisions != nil {
				t.Errorf("answer %+v, want %q", got, c.want)
			}
		})
	}
}

func TestDecision_Device_NetworkSettingsApplied(t *testing.T) {
	rate := 5
	for name, described := range map[string]*netif.VF{
		"none": nil,
		"all":  {SpoofCheck: netif.Off, Trust: netif.On, LinkState: "disable", MinTxRate: &rate, MaxTxRate: &rate, QoS: &rate, Proto: "802.1ad"},
	} {
		d := newDecided()
		d.described, d.addresses = physical("eth0"), nil
		d.described.Kind, d.described.Link = "sriov", &netif.Config{Pool: "x/vf", VLAN: 7, VF: described}
		got := d.decide(t, thePod)
		if got.missing != "" || len(got.decisions) != 1 || got.decisions[0].PCI != "" {
			t.Fatalf("%s: answer %+v", name, got)
		}
		if diff := cmp.Diff(*d.described.Link, got.decisions[0].Config); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	d := newDecided()
	d.described, d.addresses = physical("eth0"), nil
	d.described.Kind, d.described.Link = "sriov", &netif.Config{Pool: "x/vf", VXLAN: 7}
	if got := d.decide(t, thePod); !strings.Contains(got.missing, "a device of a pool has no VXLAN") {
		t.Errorf("a VXLAN: %+v", got)
	}
}

func TestDecision_AttachmentOutsideVPC_NoAddressesNeeded(t *testing.T) {
	d := newDecided()
	d.described, d.addresses, d.mtu = physical("eth0"), nil, 0
	got := d.decide(t, thePod)
	if got.missing != "" || len(got.decisions) != 1 {
		t.Fatalf("answer %+v", got)
	}
	one := got.decisions[0]
	if one.Outside != "physical" || one.InVPC() || one.Kind != attachmenttest.Kind || one.MAC != macOf("p1", "eth0") || one.MTU != 0 {
		t.Errorf("decided is %+v", one)
	}
	if one.MAC[0]&3 != 2 {
		t.Errorf("%s is no locally administered unicast address", one.MAC)
	}
}

// TestDecision_NetworkServicesIncomplete_Waits: the pod's first connection would be
// refused while the node does not know the backends.
func TestDecision_NetworkServicesIncomplete_Waits(t *testing.T) {
	d := newDecided()
	d.described, d.addresses = physical("eth0"), nil
	s := newRows(t)
	d.fill(t, s)
	put := func(change func(tx store.Tx) error) {
		t.Helper()
		if err := s.Update(change); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, want string
		change     func(tx store.Tx) error
		unsynced   bool
	}{
		{"a network without Services", "", func(store.Tx) error { return nil }, false},
		{"Services that are being read", `still reading the Services in network "physical"`, func(tx store.Tx) error {
			return store.PutEndpointSlice(tx, &store.EndpointSlice{Meta: store.Meta{UID: "s"}, Namespace: "ns", Name: "web-1", Service: "web", Domain: "uid-physical.net"})
		}, true},
		{"a network without a number", `the DomainClaim of network "physical"`, func(store.Tx) error { return nil }, false},
		{"a network with a number", "", func(tx store.Tx) error {
			return multinet.PutDomainClaim(tx, &multinet.DomainClaim{Meta: store.Meta{UID: "d"}, Number: 1 << 24, Network: store.NetworkRef{UID: "uid-physical"}})
		}, false},
	} {
		put(c.change)
		d.unsynced = c.unsynced
		if got := d.ask(s, thePod); (c.want == "") != (got.missing == "") || !strings.Contains(got.missing, c.want) {
			t.Errorf("%s: answer %+v, want %q", c.name, got, c.want)
		}
	}
}

func TestDecision_AttachmentsInsideAndOutsideVPC_BothDecided(t *testing.T) {
	d := newDecided()
	d.more = []netif.Interface{physical("net1", "198.51.100.7/24")}
	d.more[0].MAC, d.more[0].Gateways = "02:00:00:00:07:07", []netip.Addr{netip.MustParseAddr("198.51.100.1")}
	got := d.decide(t, thePod)
	if got.missing != "" || len(got.decisions) != 2 {
		t.Fatalf("answer %+v", got)
	}
	first, second := got.decisions[0], got.decisions[1]
	if first.VPC != "blue" || first.IfName != "" || len(first.Gateways) != 2 {
		t.Errorf("the first is %+v", first)
	}
	want := journal.Interface{Kind: attachmenttest.Kind, Addrs: d.more[0].Addresses, MAC: journal.MAC{2, 0, 0, 0, 7, 7}}
	if diff := cmp.Diff(want, second.Interface, compareByValue); diff != "" || second.IfName != "net1" || second.Outside != "physical" {
		t.Errorf("the second is %+v (-want +got):\n%s", second, diff)
	}
}

func TestDecision_PluginArguments_MatchAnnotation(t *testing.T) {
	file := netif.DelegateFile{
		NetworkID: "lab0", Name: "lab", Type: "bridge", Plugins: []string{"bridge"}, IPAM: []string{"static"}, Inject: true,
		Args: []byte(`{"a":1}`), Runtime: []byte(`{"mac":"02:00:00:00:00:01"}`), PlainIPs: true, PlainMAC: true,
	}
	want := &ifdriver.Delegate{Conf: []byte("conf"), File: &netif.DelegateFile{
		NetworkID: "lab0", Name: "lab", Type: "bridge", Plugins: []string{"bridge"}, IPAM: []string{"static"}, Inject: true,
		Args: []byte(`{"a":1}`), Runtime: []byte(`{"mac":"02:00:00:00:00:01"}`), PlainIPs: true, PlainMAC: true,
	}}
	described := netif.Interface{Delegate: &netif.Delegate{Conf: []byte("conf"), File: &file}}
	if diff := cmp.Diff(want, delegateOf(described)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// NPWG 1.3, 7.3: the plugins of definitions follow each other. Plugins of DANM's networks run
	// side by side.
	described.Definition, want.InOrder = "ns/lab", true
	if diff := cmp.Diff(want, delegateOf(described)); diff != "" {
		t.Errorf("of a definition (-want +got):\n%s", diff)
	}
}

func TestDecision_UnservableOutsideVPC_Refused(t *testing.T) {
	cases := map[string]struct {
		change func(*decided)
		want   string
	}{
		"ports of the node": {
			func(d *decided) { d.pod.HostPorts = []store.HostPort{{Protocol: "TCP", HostPort: 80, Port: 80}} },
			"ports of nodes lead to pods in VPCs only",
		},
		"two of a family": {func(d *decided) { d.described = physical("eth0", "198.51.100.7/24", "198.51.100.8/24") }, "at most one address per family"},
		"a link that no network wants": {
			func(d *decided) { d.described.Link = &netif.Config{Parent: "ens4", VLAN: 100} },
			"the HostLink object of VLAN 100 on ens4 has not arrived yet",
		},
		"two links": {func(d *decided) {
			d.described.Link = &netif.Config{Parent: "ens4", VLAN: 100, VXLAN: 200}
			d.links = []multinet.LinkID{{Device: "ens4", Type: multinet.VXLAN, VNI: 200}}
		}, "want at most one of them"},
		"no MAC": {func(d *decided) { d.described.MAC = "x" }, "parse MAC"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := newDecided()
			d.described, d.addresses = physical("eth0"), nil
			c.change(d)
			if got := d.decide(t, thePod); !strings.Contains(got.missing, c.want) || got.decisions != nil {
				t.Errorf("answer %+v, want %q", got, c.want)
			}
		})
	}
}

func TestDecision_InterfaceOnLink_WaitsUntilLinkWanted(t *testing.T) {
	d := newDecided()
	d.described, d.addresses = physical("eth0"), nil
	d.described.Link = &netif.Config{Parent: "ens4", VXLAN: 200}
	d.links = []multinet.LinkID{{Device: "ens4", Type: multinet.VXLAN, VNI: 200}}
	got := d.decide(t, thePod)
	if len(got.decisions) != 1 || got.decisions[0].Parent != "ens4" || got.decisions[0].VXLAN != 200 || got.decisions[0].VLAN != 0 {
		t.Errorf("answer %+v", got)
	}
}

// rebuild rebuilds the record of an interface that a driver of a kind has found.
func (d *decided) rebuild(t *testing.T, kind ifdriver.Kind, found ifdriver.Found) (rec journal.Record, err error) {
	t.Helper()
	s := newRows(t)
	d.fill(t, s)
	s.View(func(tx store.ReadTx) { rec, err = Rebuild(tx, planned(), kinds[kind], found) })
	return rec, err
}

func TestRebuild_EachRecord_MatchesDecision(t *testing.T) {
	d := newDecided()
	d.pod.NetworkProbes = true
	d.more = []netif.Interface{physical("net1", "198.51.100.7/24")}
	for i, decided := range d.decide(t, thePod).decisions {
		found := ifdriver.Found{IfName: "eth0", PodUID: "p1"}
		if i > 0 {
			found.IfName, found.Request = decided.IfName, "eth0"
		}
		rec, err := d.rebuild(t, decided.Kind, found)
		if err != nil {
			t.Fatal(err)
		}
		want := journal.Record{
			Identity: journal.Identity{Pod: thePod, Attachment: decided.Attachment}, Binding: decided.Binding,
			Interface: journal.Interface{Addrs: decided.Addrs, Gateways: decided.Gateways, MAC: decided.MAC, AltName: decided.AltName},
			Probed:    decided.Probed,
		}
		if diff := cmp.Diff(want, rec, compareByValue); diff != "" {
			t.Errorf("attachment %s (-decided +rebuilt):\n%s", decided.Attachment, diff)
		}
	}
}

// TestRebuild_StaticPodRecord_HasRuntimeUID: CHECK and a repeated ADD go by it.
func TestRebuild_StaticPodRecord_HasRuntimeUID(t *testing.T) {
	d := newDecided()
	d.pod.StaticUID = "computed"
	d.more = []netif.Interface{physical("net1", "198.51.100.7/24")}
	for kind, found := range map[ifdriver.Kind]ifdriver.Found{
		netkit.Kind:         {IfName: "eth0", PodUID: "p1"},
		attachmenttest.Kind: {IfName: "net1", Request: "eth0", PodUID: "p1"},
	} {
		asked := journal.Pod{Namespace: "ns", Name: "p1", UID: "computed"}
		if rec, err := d.rebuild(t, kind, found); err != nil || !rec.AskedFor(asked) || rec.Pod.UID != "p1" {
			t.Errorf("kind %s: rebuilt is %+v, %v", kind, rec, err)
		}
	}
}

// TestRebuild_EachInterface_KindFromKernel forges annotations: an interface with a datapath
// stays in the VPC of its Address objects.
func TestRebuild_EachInterface_KindFromKernel(t *testing.T) {
	d := newDecided()
	d.described = physical("eth0")
	if rec, err := d.rebuild(t, netkit.Kind, ifdriver.Found{IfName: "eth0", PodUID: "p1"}); err != nil || rec.VPC != "blue" || !rec.InVPC() {
		t.Errorf("rebuilt is %+v, %v", rec, err)
	}
	for name, change := range map[string]func(*decided){
		"its annotation has a VPC":       func(d *decided) { *d = *newDecided() },
		"its annotation has no such one": func(d *decided) { d.described, d.more = newDecided().described, []netif.Interface{physical("net2")} },
		"its annotation is no list":      func(d *decided) { d.pod.Attachments = "{" },
		"its pod is gone":                func(d *decided) { d.pod.UID = "" },
		"its pod is elsewhere":           func(d *decided) { d.pod.Node = "node2" },
		"its pod is told nothing":        func(d *decided) { d.pod.NetworkReady = false },
		"it has the annotation alone":    func(d *decided) { d.pod.Reason = "" },
		"it is not claimed":              func(d *decided) { d.unclaimed = true },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDecided()
			d.described = physical("eth0")
			change(d)
			if rec, err := d.rebuild(t, attachmenttest.Kind, ifdriver.Found{IfName: "eth0", PodUID: "p1"}); err == nil {
				t.Errorf("rebuilt is %+v", rec)
			}
		})
	}
}

// TestClaim_BeingDeleted_DescribesOldInterfaceAlone: the node keeps an interface whose claim is being
// deleted, and makes no new one.
func TestClaim_BeingDeleted_DescribesOldInterfaceAlone(t *testing.T) {
	d := newDecided()
	d.described = physical("eth0")
	s := newRows(t)
	d.fill(t, s)
	err := s.Update(func(tx store.Tx) error {
		claim := *multinet.GetClaim(tx, "ns", v1alpha1.AttachmentClaimName("p1", "eth0"))
		claim.Deleting, claim.ResourceVersion = true, "9"
		return multinet.PutClaim(tx, &claim)
	})
	if err != nil {
		t.Fatal(err)
	}
	s.View(func(tx store.ReadTx) {
		rec, err := Rebuild(tx, planned(), kinds[attachmenttest.Kind], ifdriver.Found{IfName: "eth0", PodUID: "p1"})
		if err != nil || rec.Outside == "" {
			t.Errorf("rebuilt is %+v, %v", rec, err)
		}
	})
	asked := racing(s, newJournal(t))
	rec := journal.Record{Identity: journal.Identity{Pod: thePod, Attachment: "eth0"}, Binding: journal.Binding{Outside: "DanmNet/ns/physical"}}
	var notReady *attachment.NotReady
	if err := asked.Confirm([]journal.Record{rec}); !errors.As(err, &notReady) || !strings.Contains(notReady.Reason, "is being deleted") {
		t.Errorf("a new interface is confirmed with %v", err)
	}
}

// The end of a grant concerns new pods: a running one keeps its record, and so its DEL.
func TestRebuild_PluginGrantEnded_StillRebuilt(t *testing.T) {
	d := newDecided()
	one := physical("net1")
	one.Outside, one.Delegate = "NetworkAttachmentDefinition/other/lab", &netif.Delegate{
		Conf: []byte(`{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"bridge"}]}`),
	}
	d.more = []netif.Interface{one}
	if got := d.decide(t, thePod); got.missing == "" {
		t.Fatalf("a new pod without a grant gets %+v", got)
	}
	rec, err := d.rebuild(t, attachmenttest.Kind, ifdriver.Found{IfName: "net1", Request: "eth0", PodUID: "p1"})
	if err != nil || rec.Outside != one.Outside || rec.Attachment != "net1" {
		t.Errorf("rebuilt is %+v, %v", rec, err)
	}
}
