// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	stdcmp "cmp"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/cluster/release"
	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/attachment/attachmenttest"
	"github.com/alioth-net/alioth/cnid/cni/drivers"
	"github.com/alioth-net/alioth/cnid/cni/drivers/netkit"
	"github.com/alioth-net/alioth/cnid/cni/drivers/sriov"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// kinds are the kinds of the registry, and one without a datapath.
var kinds = append(drivers.WithExternal(drivers.WithSRIOV(drivers.All(), sriov.Config{}), nil), attachmenttest.Type(nil)).Catalog()

// decided is a store with all decisions for pod p1.
type decided struct {
	vpc       store.VPC
	subnet    store.Subnet
	pod       store.Pod
	described netif.Interface
	// more are further attachments of the pod.
	more []netif.Interface
	// unclaimed attachments outside of every VPC have no claims.
	unclaimed bool
	addresses []store.Address
	// release01: the Addresses have no configuration, as an operator of that release writes them.
	release01 bool
	// links are wanted on the nodes.
	links []multinet.LinkID
	// grants are the DelegationGrants of the cluster.
	grants   []multinet.Grant
	records  []journal.Record
	mtu      int
	problem  string
	unsynced bool
	// unread is the name of a namespace that has not been read yet.
	unread string
	// unfollowed: the node has no row of the pod's namespace.
	unfollowed bool
	// attached are the records of other pods, listening the node's own TCP port.
	attached  []journal.Record
	listening uint16
	// tenant of the pod's namespace; "" for one without a label.
	tenant string
}

func newDecided() *decided {
	holder := store.Holder{Kind: store.HolderPod, Namespace: "ns", Name: "p1", UID: "p1"}
	d := &decided{
		vpc:    testrows.VPC("blue", 20, "10.10.0.0/16", "fd10:10::/48"),
		subnet: testrows.Subnet("blue1", "blue", "10.10.1.0/24", "10.10.1.1", "fd10:10:0:1::/64", "fd10:10:0:1::1"),
		pod:    store.Pod{Meta: testrows.Meta("p1"), Namespace: "ns", Name: "p1", Node: "node1", NetworkReady: true, Reason: v1alpha1.AttachedReason},
		addresses: []store.Address{
			testrows.Address("blue", "blue1", "fd10:10:0:1::10", "node1", holder, "10.10.1.10", "fd10:10:0:1::10"),
			testrows.Address("blue", "blue1", "10.10.1.10", "node1", holder, "10.10.1.10", "fd10:10:0:1::10"),
		},
		mtu: 1450,
	}
	d.described = netif.Interface{
		Name: "eth0", AltName: "net0", Kind: "veth", VPC: "blue", Subnet: "blue1", MAC: d.addresses[0].MAC,
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.10.1.10/24"), netip.MustParsePrefix("fd10:10:0:1::10/64")},
	}
	return d
}

func (d *decided) fill(t *testing.T, s *store.Store) {
	t.Helper()
	testrows.Configure(d.addresses, "p1", append([]netif.Interface{d.described}, d.more...))
	for i := range d.addresses {
		if d.release01 {
			d.addresses[i].Config, d.addresses[i].Interfaces = nil, nil
		}
	}
	if d.pod.Attachments == "" {
		text, err := annotations.FormatAttachments(append([]netif.Interface{d.described}, d.more...))
		if err != nil {
			t.Fatal(err)
		}
		d.pod.Attachments = text
	}
	err := s.Update(func(tx store.Tx) error {
		namespace := store.Namespace{Meta: testrows.Meta("ns"), Name: "ns", Tenant: stdcmp.Or(d.tenant, "ns:ns")}
		err := errors.Join(store.PutVPC(tx, &d.vpc), store.PutSubnet(tx, &d.subnet))
		if !d.unfollowed {
			err = errors.Join(err, store.PutNamespace(tx, &namespace))
		}
		for name, tenant := range map[string]string{"other": "ns:other", "global": "ns:global", "rented": "red"} {
			err = errors.Join(err, store.PutNamespace(tx, &store.Namespace{Meta: testrows.Meta(name), Name: name, Tenant: tenant}))
		}
		for _, row := range d.addresses {
			err = errors.Join(err, store.PutAddress(tx, &row))
		}
		for _, id := range d.links {
			name := v1alpha1.HostLinkName(id.Type, id.VNI, id.Device)
			err = errors.Join(err, multinet.PutHostLink(tx, &multinet.HostLink{Meta: testrows.Meta(name), Name: name, LinkID: id}))
		}
		for _, row := range d.grants {
			row.Meta = testrows.Meta(row.Name)
			err = errors.Join(err, multinet.PutGrant(tx, &row))
		}
		if d.pod.UID != "" {
			err = errors.Join(err, store.PutPod(tx, &d.pod))
		}
		if d.pod.Attachments != "{" && !d.unclaimed {
			err = errors.Join(err, testrows.PutClaims(tx, &d.pod))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (d *decided) decide(t *testing.T, pod journal.Pod) answer {
	t.Helper()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	d.fill(t, s)
	return d.ask(s, pod)
}

// planned configures the node.
func planned() plan.Config {
	return plan.Config{
		Node: "node1", TunnelPort: 4789, Kinds: kinds, ServiceRanges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
		Shadows: []netip.Prefix{netip.MustParsePrefix("169.254.64.0/18"), netip.MustParsePrefix("fd00:a110::/64")},
	}
}

// parties implements node.
func (d *decided) parties() parties {
	return parties{
		cfg: planned(), probed: d.records, attached: d.attached,
		listens: func(protocol uint8, _ netip.Addr, port uint16) (bool, error) {
			return protocol == 6 && port == d.listening, nil
		},
	}
}

// synced implements node.
func (d *decided) synced(string) bool { return !d.unsynced }

// namespaceSynced implements node.
func (d *decided) namespaceSynced(name string) bool { return name != d.unread }

// ask decides for a pod of a store.
func (d *decided) ask(s *store.Store, pod journal.Pod) (got answer) {
	s.View(func(tx store.ReadTx) {
		got = decide(tx, question{
			cfg: planned(), node: d, sharing: multinet.Sharing{Global: []string{"global"}},
			pod: pod, kinds: named(kinds, netkit.Kind), mtu: d.mtu, problem: d.problem,
		})
	})
	return got
}

var thePod = journal.Pod{Namespace: "ns", Name: "p1", UID: "p1"}

func TestDecision_AddressObjects_TakenFromThem(t *testing.T) {
	want := []attachment.Decision{{
		Attachment: "eth0",
		Binding:    journal.Binding{VPC: "blue", VNI: 20, Subnets: []string{"blue1", "blue1"}},
		Interface: journal.Interface{
			Kind:     netkit.Kind,
			Addrs:    []netip.Prefix{netip.MustParsePrefix("10.10.1.10/24"), netip.MustParsePrefix("fd10:10:0:1::10/64")},
			Gateways: []netip.Addr{netip.MustParseAddr("10.10.1.1"), netip.MustParseAddr("fd10:10:0:1::1")},
			MAC:      journal.MAC{2, 0, 10, 10, 1, 10}, Config: netif.Config{MTU: 1450}, AltName: "net0",
		},
	}}
	for name, pod := range map[string]journal.Pod{"by UID": thePod, "by name, when the runtime gives no UID": {Namespace: "ns", Name: "p1"}} {
		t.Run(name, func(t *testing.T) {
			got := newDecided().decide(t, pod)
			same := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
			if diff := cmp.Diff(want, got.decisions, same, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" || got.missing != "" {
				t.Errorf("missing %q (-want +got):\n%s", got.missing, diff)
			}
		})
	}
}

// TestDecision_StaticPod_FoundByMirrorPod: the kubelet computes the UID of a static pod, and the API
// server gives another to the mirror, whose addresses the pod has.
func TestDecision_StaticPod_FoundByMirrorPod(t *testing.T) {
	const computed = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
	for name, tt := range map[string]struct {
		static string
		asked  journal.Pod
		want   string
	}{
		"its mirror":                     {computed, journal.Pod{Namespace: "ns", Name: "p1", UID: computed}, "p1"},
		"the mirror of another manifest": {"ffff", journal.Pod{Namespace: "ns", Name: "p1", UID: computed}, ""},
		"a mirror of another name":       {computed, journal.Pod{Namespace: "ns", Name: "p2", UID: computed}, ""},
		"a mirror of another namespace":  {computed, journal.Pod{Namespace: "other", Name: "p1", UID: computed}, ""},
		"no mirror":                      {"", journal.Pod{Namespace: "ns", Name: "p1", UID: computed}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDecided()
			d.pod.StaticUID = tt.static
			got := d.decide(t, tt.asked)
			if (tt.want == "") != strings.Contains(got.missing, "has not heard of the pod") {
				t.Errorf("missing %q", got.missing)
			}
			for _, one := range got.decisions {
				if one.PodUID != tt.want {
					t.Errorf("the decision is for the pod %q, want %q", one.PodUID, tt.want)
				}
			}
			if tt.want != "" && len(got.decisions) == 0 {
				t.Error("there is no decision")
			}
		})
	}
}

func TestDecision_ObjectsIncompleteOrContradictory_ReasonReturned(t *testing.T) {
	cases := []struct {
		name   string
		change func(*decided)
		want   string
	}{
		{"the pod is unknown", func(d *decided) { d.pod.UID = "" }, "has not heard of the pod"},
		{"another pod of that name", func(d *decided) { d.pod.UID = "p0" }, "has not heard of the pod"},
		{"the operator has not looked", func(d *decided) { d.pod.NetworkReady = false }, "is alioth-operator running"},
		{"its creator wrote the readiness annotation", func(d *decided) { d.pod.Reason = "" }, "is alioth-operator running"},
		{"its creator wrote the readiness annotation, and the operator says why not", func(d *decided) {
			d.pod.Reason, d.pod.Message = "SubnetExhausted", "no address is free in blue1"
		}, "SubnetExhausted: no address is free in blue1"},
		{"the operator says why not", func(d *decided) {
			d.pod.NetworkReady, d.pod.Reason, d.pod.Message = false, "SubnetExhausted", "no address is free in blue1"
		}, "SubnetExhausted: no address is free in blue1"},
		{"an annotation of release 0.1 that is no JSON", func(d *decided) { d.release01, d.pod.Attachments = true, "{" }, "unusable"},
		{"an annotation of release 0.1 without attachments", func(d *decided) { d.release01, d.pod.Attachments = true, "[]" }, "unusable"},
		{"no Address yet", func(d *decided) { d.addresses = nil }, "have not arrived yet"},
		{"half a set", func(d *decided) { d.addresses = d.addresses[:1] }, "Address object of 10.10.1.10 has not arrived"},
		{"an Address of another pod", func(d *decided) { d.addresses[0].Holder.UID = "p0" }, "Address object of fd10:10:0:1::10 has not arrived"},
		{"an Address that is being deleted", func(d *decided) { d.addresses[0].Deleting = true }, "has not arrived"},
		{"an Address more than the set", func(d *decided) {
			d.addresses = append(d.addresses, testrows.Address("blue", "blue1", "10.10.1.11", "node1", d.addresses[0].Holder, "10.10.1.10", "fd10:10:0:1::10"))
		}, "more Address objects than their set"},
		{"an Address on another node", func(d *decided) { d.addresses[0].Node = "node2" }, "Address object of fd10:10:0:1::10 has not arrived"},
		{"Addresses of two VPCs", func(d *decided) { d.addresses[0].VPC = "red" }, "disagree about VPC, MAC or driver"},
		{"a forged VPC in the annotation of release 0.1", func(d *decided) { d.release01 = true; d.described.VPC = "red" }, `VPC "red", "blue"`},
		{
			"a forged address in the annotation of release 0.1",
			func(d *decided) { d.release01 = true; d.described.Addresses = d.described.Addresses[:1] },
			"addresses [10.10.1.10]",
		},
		{"a forged MAC in the annotation of release 0.1", func(d *decided) { d.release01 = true; d.described.MAC = "02:00:00:00:00:99" }, "MAC 02:00:00:00:00:99"},
		{"a VPC without a VNI", func(d *decided) { d.vpc.VNI = 0 }, "VPC blue has no VNI"},
		{"a VPC that is still being read", func(d *decided) { d.unsynced = true }, "still being read"},
		{"ports of the node before the namespace is read", func(d *decided) {
			d.unread, d.pod.HostPorts = "ns", []store.HostPort{{Protocol: "TCP", HostPort: 80, Port: 8080}}
		}, "namespace ns has not been read"},
		{"a subnet that is not there", func(d *decided) { d.subnet.Name = "blue2" }, "subnet blue1"},
		{"a subnet of another VPC", func(d *decided) { d.subnet.VPC = "red" }, "subnet blue1"},
		{"a subnet without the address", func(d *decided) { d.subnet.Prefixes[0] = netip.MustParsePrefix("10.10.9.0/24") }, "no range or no gateway for 10.10.1.10"},
		{"before the first pass", func(d *decided) { d.mtu = 0 }, "node1 is not programmed yet: alioth-cnid is about to"},
		{
			"when passes fail",
			func(d *decided) { d.mtu, d.problem = 0, "the Node object has no InternalIP" },
			"node1 is not programmed yet: the Node object has no InternalIP",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := newDecided()
			c.change(d)
			got := d.decide(t, thePod)
			if !strings.Contains(got.missing, c.want) || got.gone {
				t.Errorf("got %q, gone %v; want %q in it", got.missing, got.gone, c.want)
			}
		})
	}
}

func TestDecision_PodTerminating_NoNetwork(t *testing.T) {
	for name, change := range map[string]func(*decided){
		"deleting": func(d *decided) { d.pod.Deleting = true },
		"terminal": func(d *decided) { d.pod.Terminal = true },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDecided()
			change(d)
			if got := d.decide(t, thePod); !got.gone {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestDecision_NodePortTaken_Refused(t *testing.T) {
	other := func(port journal.HostPort) []journal.Record {
		return []journal.Record{{Identity: journal.Identity{Pod: journal.Pod{Namespace: "ns", Name: "older", UID: "older"}}, HostPorts: []journal.HostPort{port}}}
	}
	node, elsewhere := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	cases := map[string]struct {
		asked     store.HostPort
		attached  []journal.Record
		listening uint16
		// want is a part of the answer; "" grants the port.
		want string
	}{
		"free":                         {store.HostPort{Protocol: "TCP", HostPort: 80, Port: 8080}, nil, 81, ""},
		"the node listens":             {store.HostPort{Protocol: "TCP", HostPort: 80, Port: 8080}, nil, 80, "a program on node node1 itself listens there"},
		"the node listens, to UDP":     {store.HostPort{Protocol: "UDP", HostPort: 80, Port: 8080}, nil, 80, ""},
		"the tunnel's":                 {store.HostPort{Protocol: "UDP", HostPort: 4789, Port: 80}, nil, 0, "the port of the tunnel"},
		"the tunnel's, at one address": {store.HostPort{Protocol: "UDP", HostIP: elsewhere, HostPort: 4789, Port: 80}, nil, 0, "the port of the tunnel"},
		"the tunnel's number, TCP":     {store.HostPort{Protocol: "TCP", HostPort: 4789, Port: 80}, nil, 0, ""},
		"another pod's": {
			store.HostPort{Protocol: "TCP", HostPort: 80, Port: 80}, other(journal.HostPort{Protocol: "TCP", HostPort: 80, Port: 81}), 0, "leads to pod ns/older",
		},
		"another pod's, at one address": {
			store.HostPort{
				Protocol: "TCP",
				HostPort: 80,
				Port:     80,
			}, other(journal.HostPort{Protocol: "TCP", HostIP: node, HostPort: 80, Port: 81}), 0, "leads to pod ns/older",
		},
		"another pod's, at another address": {
			store.HostPort{
				Protocol: "TCP",
				HostIP:   elsewhere,
				HostPort: 80,
				Port:     80,
			}, other(journal.HostPort{Protocol: "TCP", HostIP: node, HostPort: 80, Port: 81}), 0, "",
		},
		"another pod's, of another protocol": {
			store.HostPort{Protocol: "SCTP", HostPort: 80, Port: 80}, other(journal.HostPort{Protocol: "TCP", HostPort: 80, Port: 81}), 0, "",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := newDecided()
			d.pod.HostPorts, d.attached, d.listening = []store.HostPort{c.asked}, c.attached, c.listening
			got := d.decide(t, thePod)
			if c.want == "" {
				if got.missing != "" {
					t.Fatalf("missing %q; want %v", got.missing, c.asked)
				}
				if ports := got.decisions[0].HostPorts; len(ports) != 1 || ports[0] != journal.HostPort(c.asked) {
					t.Errorf("ports %v, missing %q; want %v", ports, got.missing, c.asked)
				}
				return
			}
			if !strings.Contains(got.missing, c.want) || got.warning != got.missing || got.reason != v1alpha1.HostPortConflictReason || !got.elsewhere {
				t.Errorf("answer %+v, want %q", got, c.want)
			}
		})
	}
}

func TestDecision_PortNotGranted_Waits(t *testing.T) {
	d := newDecided()
	d.pod.HostPorts = []store.HostPort{{Protocol: "TCP", HostPort: 80, Port: 8080}}
	d.tenant = "blue"
	got := d.decide(t, thePod)
	if !strings.Contains(got.missing, `no HostAccess grants it to tenant "blue"`) || got.warning != got.missing ||
		got.reason != v1alpha1.HostPortNotGrantedReason ||
		got.elsewhere {
		t.Errorf("answer %+v", got)
	}
	s, ended := awaiting(t.Context(), t, d)
	grant := external.HostAccess{
		Meta:           testrows.Meta("grant"),
		Name:           "grant",
		AllowedTenants: []string{"blue"},
		Ports:          []external.HostPortRange{{First: 80, Last: 80}},
	}
	if err := s.Update(func(tx store.Tx) error { return external.PutHostAccess(tx, &grant) }); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Await: %v", err)
	}
}

func TestPodLeaving_GoneFinishedOrDeleting_Detected(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*store.Pod)
		want   bool
	}{
		"it is well":           {func(*store.Pod) {}, false},
		"it is being deleted":  {func(p *store.Pod) { p.Deleting = true }, true},
		"it has ended":         {func(p *store.Pod) { p.Terminal = true }, true},
		"another has its name": {func(p *store.Pod) { p.UID = "p2" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := store.New()
			if err != nil {
				t.Fatal(err)
			}
			d := newDecided()
			tc.change(&d.pod)
			d.fill(t, s)
			asked := New(Config{
				Store: s, Held: release.NewHeld(newJournal(t)), Journal: newJournal(t), Sources: sources{},
			})
			err = asked.Confirm([]journal.Record{{Identity: journal.Identity{Pod: thePod}}})
			if got := errors.Is(err, attachment.ErrPodGone); got != tc.want || err != nil && !got {
				t.Errorf("leaving is %t, want %t: %v", got, tc.want, err)
			}
		})
	}
}

// unnamed is an API server without a name.
type unnamed struct{}

// Addresses implements APIServers.
func (unnamed) Addresses() []netip.Addr { return nil }

// told has the events for pods.
type reported struct{ events []string }

// Refused implements Events.
func (t *reported) Refused(pod journal.Pod, reason, message string) {
	t.events = append(t.events, pod.String()+" "+reason+" "+message)
}
