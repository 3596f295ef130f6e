// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

func TestVerify_ConsistentCluster_NoDifference(t *testing.T) {
	for _, d := range newWorld(t).compare(t) {
		t.Error(d)
	}
}

func TestVerify_OutsideAndFurtherAttachments_NoDifference(t *testing.T) {
	w := newWorld(t)
	tell := func(pod string, list ...netif.Interface) {
		reported, err := annotations.ParseAttachments(w.pods[pod].Attachments)
		if err != nil {
			t.Fatal(err)
		}
		if w.pods[pod].Attachments, err = annotations.FormatAttachments(append(reported, list...)); err != nil {
			t.Fatal(err)
		}
	}
	outside := netif.Interface{Name: "eth0", Kind: "bridge", Outside: "physical", Addresses: prefixes("198.51.100.7/24")}
	w.pods["p3"] = &store.Pod{
		Meta:         store.Meta{UID: "uid-p3"},
		Namespace:    "ns",
		Name:         "p3",
		Node:         "node1",
		Attachments:  "[]",
		NetworkReady: true,
		Reason:       v1alpha1.AttachedReason,
	}
	w.status["uid-p3"] = Pod{Running: true, IPs: ips("198.51.100.7")}
	tell("p3", outside)
	outside.Name = "net1"
	further := netif.Interface{Name: "net2", Kind: "veth", VPC: "blue", Subnet: "net1", Addresses: prefixes("10.10.1.12/24"), MAC: mac1}
	tell("p1", outside, further)
	claimed := netif.Interface{Name: "net3", Kind: "macvlan", Outside: "DanmNet/ns/internal", OutsideUID: "u1", Addresses: prefixes("10.10.1.12/24")}
	tell("p1", claimed)
	w.claimInNetwork("10.10.1.12", "net3", "p1")
	d := w.dumps["node1"]
	second := d.Attachments[0]
	w.claim("blue", "net1", "10.10.1.12", mac1, "node1", store.Holder{Kind: store.HolderPod, Namespace: "ns", Name: "p1", UID: "uid-p1"}, "10.10.1.12")
	w.addresses["blue.10.10.1.12"].Attachment = "net2"
	second.IfName, second.Request, second.Name, second.HostIfName, second.Addrs, second.Seq = "net2", "eth0", "net2", "alvp1b", further.Addresses, 2
	second.Device.HostIfindex, second.Shadow4, second.Shadow6 = 11, netip.MustParseAddr("169.254.64.3"), netip.Addr{}
	d.Attachments = append(d.Attachments, second)
	d.Links = append(d.Links, nodestatus.Link{Name: "alvp1b", Index: 11, Up: true})
	for name := range w.nodes {
		w.program(t, name)
	}
	for _, difference := range w.compare(t) {
		t.Error(difference)
	}
}

func TestVerify_VNIRestsForReason_NoDifference(t *testing.T) {
	reported := func(call string, vnis ...uint32) *store.RollCall {
		return &store.RollCall{Meta: store.Meta{UID: "a1"}, Name: "node.node1", Call: call, VNIs: vnis, NodeUID: "uid-node1"}
	}
	for _, tc := range []struct {
		name   string
		answer *store.RollCall
		want   int
	}{
		{"a node has not answered", reported("earlier"), 0},
		{"a node holds it", reported("now", 40), 0},
		{"no node holds it", reported("now", 20), 1},
		{"it is a node that does not count", &store.RollCall{Meta: store.Meta{UID: "a2"}, Name: "node.gone", Call: "earlier", NodeUID: "gone"}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.claims["gone"] = &store.VNIClaim{Meta: store.Meta{UID: "c9"}, VNI: 40, VPC: "gone", VPCUID: "v9"}
			w.calls = map[string]*store.RollCall{"operator": {Meta: store.Meta{UID: "q1"}, Name: "operator", Call: "now"}, "answer": tc.answer}
			found := w.compare(t)
			if len(found) != tc.want || tc.want > 0 && found[0].Kind != VNILeft {
				t.Errorf("found %v", found)
			}
		})
	}
}

func TestVerifyDump_Transfer_RoundTripEqual(t *testing.T) {
	w := newWorld(t)
	text, err := json.Marshal(w.dumps["node1"])
	if err != nil {
		t.Fatal(err)
	}
	w.dumps["node1"] = &nodestatus.Dump{}
	if err := json.Unmarshal(text, w.dumps["node1"]); err != nil {
		t.Fatal(err)
	}
	for _, d := range w.compare(t) {
		t.Error(d)
	}
}

// difference is one possible fault of a world.
type difference struct {
	name string
	do   func(t *testing.T, w *world)
	// kinds are those found, each of them once or more often.
	kinds []Kind
	// says is a part of the text of the first difference.
	says string
}

func inAPI() []difference {
	return []difference{
		{
			"an object contradicts another",
			func(_ *testing.T, w *world) { w.refused = []Refused{{Object: "VPC red", Why: "VNI 20 is taken"}} },
			[]Kind{ObjectRefused},
			"VNI 20",
		},
		{"a VNI claim is gone", func(_ *testing.T, w *world) { delete(w.claims, "blue") }, []Kind{VNIUnclaimed}, "VPC blue"},
		{"a VNI is claimed for a predecessor", func(_ *testing.T, w *world) { w.claims["blue"].VPCUID = "v0" }, []Kind{VNILeft, VNIUnclaimed}, "vni-20"},
		{"an address is held by a pod that is gone", func(_ *testing.T, w *world) {
			w.claim("blue", "net1", "10.10.1.99", mac1, "node1", store.Holder{Kind: store.HolderPod, Namespace: "ns", Name: "p9", UID: "u9"}, "10.10.1.99")
		}, []Kind{AddressLeft, MapRowMissing}, "pod ns/p9"},
		{"an address is held by a pod that has ended", func(t *testing.T, w *world) {
			w.pods["p1"].Terminal = true
			w.detach(t, "node1")
		}, []Kind{AddressLeft}, "has ended"},
		{"an address is held by a pod that is gone on a node that is silent", func(_ *testing.T, w *world) {
			delete(w.pods, "p1")
			w.dumps["node1"], w.silent["node1"] = nil, "no route to host"
		}, []Kind{AddressWaits, NodeSilent}, "out-of-service"},
		{"an address is held by a pod that is gone on a node that is fenced", func(_ *testing.T, w *world) {
			delete(w.pods, "p1")
			w.dumps["node1"], w.silent["node1"] = nil, "no route to host"
			w.nodes["node1"].OutOfService = true
		}, []Kind{AddressLeft}, "alioth-operator"},
		{"an address is held by a node that is gone", func(_ *testing.T, w *world) {
			w.claim("default", "default", "10.244.0.9", nodeMAC, "node9", store.Holder{Kind: store.HolderNode, Name: "node9", UID: "u9"}, "10.244.0.9")
		}, []Kind{AddressLeft}, "node node9"},
		{"an address is held by a Service that is gone", func(_ *testing.T, w *world) {
			w.claim("blue", "net1", "10.10.1.99", "", "", store.Holder{Kind: store.HolderService, Namespace: "ns", Name: "s9", UID: "u9"}, "10.10.1.99")
		}, []Kind{AddressLeft}, "Service ns/s9"},
		{"an address is held by a Service that does not ask for it", func(_ *testing.T, w *world) {
			w.claim(
				"blue",
				"net1",
				"10.10.1.99",
				"",
				"",
				store.Holder{Kind: store.HolderService, Namespace: w.service.Namespace, Name: w.service.Name, UID: w.service.UID},
				"10.10.1.99",
			)
		}, []Kind{AddressLeft}, "requests no address in a VPC"},
		{"an external address is held by a Service that is gone", func(_ *testing.T, w *world) {
			holder := store.Holder{Kind: store.HolderService, Namespace: "ns", Name: "s9", UID: "u9"}
			w.external = map[string]*external.Address{"": {IP: netip.MustParseAddr("192.0.2.16"), Holder: holder}}
		}, []Kind{AddressLeft}, "ExternalAddress 192.0.2.16"},
		{"an address is on another node than its pod", func(t *testing.T, w *world) {
			w.addresses["blue.10.10.1.10"].Node = "node2"
			w.program(t, "node2")
		}, []Kind{AddressMisplaced, AnnotationDiffers, AttachmentUnclaimed, PodIPDiffers}, "blue.10.10.1.10"},
		{"an address of another node names a pod as well", func(t *testing.T, w *world) {
			w.claim("blue", "net1", "10.10.1.99", nodeMAC, "node2", w.addresses["blue.10.10.1.10"].Holder, "10.10.1.99")
			w.program(t, "node1")
			w.program(t, "node2")
		}, []Kind{AddressMisplaced}, "blue.10.10.1.99"},
		{"one of two addresses is gone", func(t *testing.T, w *world) {
			delete(w.addresses, "blue.fd10:0:0:1::a")
			w.program(t, "node2")
		}, []Kind{AddressSetBroken, AnnotationDiffers, AttachmentUnclaimed, PodIPDiffers}, "fd10:0:0:1::a"},
		{"a subnet is gone", func(t *testing.T, w *world) {
			delete(w.subnets, "net1")
			w.program(t, "node1")
			w.program(t, "node2")
		}, []Kind{AddressOutside}, "net1"},
		{"a subnet has lost the range", func(t *testing.T, w *world) {
			w.subnets["net1"].Prefixes = prefixes("10.10.2.0/24", "fd10:0:0:1::/64")
			w.program(t, "node1")
			w.program(t, "node2")
		}, []Kind{AddressOutside}, "net1"},
		{"all addresses of a running pod are gone", func(t *testing.T, w *world) {
			delete(w.addresses, "blue.fd10:0:0:1::a")
			delete(w.addresses, "blue.10.10.1.10")
			w.program(t, "node2")
		}, []Kind{AddressMissing, AttachmentUnclaimed}, "ns/p1"},
		{"a pod was told another address", func(_ *testing.T, w *world) {
			w.pods["p1"].Attachments = strings.ReplaceAll(w.pods["p1"].Attachments, "10.10.1.10/", "10.10.1.12/")
		}, []Kind{AnnotationDiffers}, "10.10.1.12"},
		{"a pod was told nonsense", func(_ *testing.T, w *world) { w.pods["p1"].Attachments = "{" }, []Kind{AnnotationDiffers}, "unusable"},
		{"a pod has another IP in its status", func(_ *testing.T, w *world) {
			w.status["uid-p1"] = Pod{Running: true, IPs: ips("10.10.1.10")}
		}, []Kind{PodIPDiffers}, "fd10:0:0:1::a"},
		{"a node has no address of its own", func(t *testing.T, w *world) {
			delete(w.addresses, "default.10.244.0.2")
			w.program(t, "node1")
			w.program(t, "node2")
		}, []Kind{NodeAddressMissing}, "default VPC"},
	}
}

// detach takes the attachments from a node, as DEL does.
func (w *world) detach(t *testing.T, node string) {
	t.Helper()
	d := w.dumps[node]
	d.Attachments = nil
	d.Links = slices.DeleteFunc(d.Links, func(l nodestatus.Link) bool { return strings.HasPrefix(l.Name, "alv") })
	w.program(t, node)
}

func onNode() []difference {
	record := func(w *world) *nodestatus.Attachment { return &w.dumps["node1"].Attachments[0] }
	return []difference{
		{
			"a daemon gives no answer",
			func(_ *testing.T, w *world) { w.dumps["node1"], w.silent["node1"] = nil, "container not found" },
			[]Kind{NodeSilent},
			"container not found",
		},
		{"a daemon has not read everything", func(_ *testing.T, w *world) { w.dumps["node1"].Synced = false }, []Kind{NodeUnprogrammed}, "still reading"},
		{"a daemon has programmed nothing", func(_ *testing.T, w *world) { w.dumps["node1"].Programmed = false }, []Kind{NodeUnprogrammed}, "not programmed"},
		{"a daemon can't program", func(_ *testing.T, w *world) { w.dumps["node1"].Problem = "the disk is full" }, []Kind{NodeUnprogrammed}, "the disk is full"},
		{"a map is not pinned", func(_ *testing.T, w *world) {
			w.dumps["node1"].Unreadable, w.dumps["node1"].Rows = []string{"open pinned map alioth_nodes"}, nil
		}, []Kind{NodeUnreadable}, "alioth_nodes"},
		{"a running pod is not attached", func(t *testing.T, w *world) { w.detach(t, "node1") }, []Kind{NotAttached}, "ns/p1"},
		{"an attachment's pod is gone", func(t *testing.T, w *world) {
			delete(w.pods, "p1")
			w.program(t, "node1")
		}, []Kind{AttachmentLeft}, "uid-p1"},
		{"an attachment was never finished", func(t *testing.T, w *world) {
			record(w).Phase = string(journal.PhaseIntended)
			w.program(t, "node1")
		}, []Kind{AttachmentUnfinished}, "intended"},
		{"an attachment is being undone", func(t *testing.T, w *world) {
			record(w).Phase = string(journal.PhaseLeaving)
			w.program(t, "node1")
		}, []Kind{AttachmentUnfinished}, "leaving"},
		{"a pod is attached in two sandboxes", func(t *testing.T, w *world) {
			second := *record(w)
			second.ContainerID, second.HostIfName, second.Seq, second.Device.HostIfindex = "another", "alvother", 2, 11
			w.dumps["node1"].Attachments = append(w.dumps["node1"].Attachments, second)
			w.dumps["node1"].Links = append(w.dumps["node1"].Links, nodestatus.Link{Name: "alvother", Index: 11, Up: true})
			w.program(t, "node1")
		}, []Kind{AttachmentTwice}, "container-of-"},
		{"an attachment uses an address of somebody else", func(t *testing.T, w *world) {
			record(w).Addrs[0] = netip.MustParsePrefix("10.10.1.11/24")
			w.program(t, "node1")
		}, []Kind{AttachmentUnclaimed}, "10.10.1.11"},
		{"an attachment lacks an address", func(t *testing.T, w *world) {
			record(w).Addrs = record(w).Addrs[:1]
			w.program(t, "node1")
		}, []Kind{AttachmentUnclaimed}, "fd10:0:0:1::a"},
		{"a VPC has another VNI", func(t *testing.T, w *world) {
			w.vpcs["blue"].VNI, w.claims["blue"].VNI = 21, 21
			w.program(t, "node1")
			w.program(t, "node2")
		}, []Kind{AttachmentVNI}, "VNI 20"},
		{"addresses are still to be released", func(_ *testing.T, w *world) {
			w.dumps["node1"].Releasing = []nodestatus.Attachment{{Key: nodestatus.Key{ContainerID: "c0"}, Pod: nodestatus.Pod{Namespace: "ns", Name: "p0"}}}
		}, []Kind{ReleasePending}, "ns/p0"},
		{"an interface is not as it was made", func(_ *testing.T, w *world) {
			w.dumps["node1"].Broken = []nodestatus.Broken{{ContainerID: record(w).ContainerID, IfName: "eth0", What: "MTU 1400, want 1450"}}
		}, []Kind{InterfaceBroken}, "MTU 1400"},
	}
}

// link returns a device of the first node.
func (w *world) link(t *testing.T, name string) *nodestatus.Link {
	t.Helper()
	list := w.dumps["node1"].Links
	at := slices.IndexFunc(list, func(l nodestatus.Link) bool { return l.Name == name })
	if at < 0 {
		t.Fatalf("node1 has no device %s", name)
	}
	return &list[at]
}

func inKernel() []difference {
	return []difference{
		{
			"a pod's device is gone",
			func(t *testing.T, w *world) { *w.link(t, "alvp1") = nodestatus.Link{} },
			[]Kind{DeviceMissing, MapRowLeft, MapRowMissing},
			"alvp1",
		},
		{
			"a pod's device is another one",
			func(t *testing.T, w *world) { w.link(t, "alvp1").Index = 99 },
			[]Kind{DeviceMissing, MapRowLeft, MapRowMissing},
			"index 99",
		},
		{"a pod's device is down", func(t *testing.T, w *world) { w.link(t, "alvp1").Up = false }, []Kind{DeviceMissing}, "ip link set"},
		{"a pod's device accepts redirects", func(t *testing.T, w *world) {
			w.link(t, "alvp1").Settings = map[string]string{"ipv4/conf/alvp1/accept_redirects": "1"}
		}, []Kind{SettingDiffers}, `ipv4/conf/alvp1/accept_redirects: is "1"`},
		{"the device with the node's address does not forward", func(_ *testing.T, w *world) {
			w.dumps["node1"].Uplinks = []nodestatus.Link{{Name: "eth0", Index: 2, Up: true, Settings: map[string]string{"ipv4/conf/eth0/forwarding": "off"}}}
		}, []Kind{SettingDiffers}, `ipv4/conf/eth0/forwarding: is off in effect`},
		{"a device belongs to nothing", func(_ *testing.T, w *world) {
			w.dumps["node1"].Links = append(w.dumps["node1"].Links, nodestatus.Link{Name: "alvstray", Index: 77, Up: true})
		}, []Kind{DeviceLeft}, "alvstray"},
		{"the tunnel's device is gone", func(t *testing.T, w *world) { *w.link(t, "alioth_vxlan") = nodestatus.Link{} }, []Kind{DeviceMissing}, "alioth_vxlan"},
		{"the node's device is down", func(t *testing.T, w *world) { w.link(t, "alioth_node").Up = false }, []Kind{DeviceMissing}, "is down"},
		{"a map lacks a row", func(_ *testing.T, w *world) { delete(w.dumps["node1"].Rows, "node 192.0.2.2") }, []Kind{MapRowMissing}, "node 192.0.2.2"},
		{"the daemon is of another build", func(_ *testing.T, w *world) { w.dumps["node1"].Rows = nil }, []Kind{NodeUnreadable}, "aliothctl of the daemon's image"},
		{"a map has a stray row", func(_ *testing.T, w *world) {
			stray := state.State{Addresses: []state.Address{{VNI: 20, IP: netip.MustParseAddr("10.10.1.77"), Kind: state.Gateway}}}
			maps.Copy(w.dumps["node1"].Rows, stray.Rows())
		}, []Kind{MapRowLeft}, "10.10.1.77 in VNI 20"},
		{"a map has a stray node port", func(_ *testing.T, w *world) {
			stray := state.State{NodePorts: []state.NodePort{{VNI: 20, Proto: state.ProtoTCP, Port: 30080, Family: ipfamily.IPv4}}}
			maps.Copy(w.dumps["node1"].Rows, stray.Rows())
		}, []Kind{MapRowLeft}, "node port 30080 protocol 6 in VNI 20, IPv4 true"},
		{
			"a network namespace is not known",
			func(_ *testing.T, w *world) { delete(w.dumps["node1"].Rows, "network namespace 4711") },
			[]Kind{MapRowMissing},
			"network namespace 4711",
		},
		{"a row has another value", func(_ *testing.T, w *world) { w.dumps["node1"].Rows["interface 10"] = "of VNI 21" }, []Kind{MapRowMissing}, "has to be"},
		{"nobody has the table that a node relies on", func(_ *testing.T, w *world) {
			w.dumps["node1"].Tables = map[string]nodestatus.Table{
				"default": {Members: true, Subnets: true, Addresses: true}, "blue": {Members: true, Subnets: true},
			}
		}, []Kind{MapRowLeft, MapRowMissing, RoleWithoutMember}, "bouncers of subnet 10.10.1.0/24 in VNI 20"},
		{
			"a looked-up row leads to a node that is gone",
			func(_ *testing.T, w *world) { w.look("10.10.1.11", "192.0.2.9", mac2) },
			[]Kind{CachedRowLeft},
			"10.10.1.11 in VNI 20",
		},
		{
			"a looked-up row leads to the node itself",
			func(_ *testing.T, w *world) { w.look("10.10.1.11", "192.0.2.1", mac2) },
			[]Kind{CachedRowLeft},
			"no other node has",
		},
		{"a looked-up row of a VPC that is gone", func(_ *testing.T, w *world) {
			w.look("10.10.1.11", "192.0.2.2", mac2)
			w.dumps["node1"].Cached[0].VNI = 99
		}, []Kind{CachedRowLeft}, "VNI that no VPC has"},
		{"a program is not on its device", func(_ *testing.T, w *world) {
			d := w.dumps["node1"]
			d.Hooks.Filters = slices.DeleteFunc(d.Hooks.Filters, func(f nodestatus.Filter) bool { return f == nodestatus.Filter{Ifindex: 10, Program: "alioth_to_pod"} })
		}, []Kind{ProgramMissing}, "alioth_to_pod on device 10"},
		{"a link is not pinned", func(_ *testing.T, w *world) { w.dumps["node1"].Hooks.Links = hook.LinkNames()[1:] }, []Kind{ProgramMissing}, "connect4"},
		{"the uplink has no program", func(_ *testing.T, w *world) {
			w.dumps["node1"].Hooks.Links = slices.DeleteFunc(hook.LinkNames(), func(name string) bool { return name == "from_underlay" })
		}, []Kind{ProgramMissing}, "from_underlay"},
	}
}

func TestVerify_EachDifferenceKind_OnlyItFound(t *testing.T) {
	made := map[Kind]bool{}
	for _, c := range slices.Concat(inAPI(), onNode(), inKernel()) {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.do(t, w)
			found := w.compare(t)
			var kinds, lines []string
			for _, d := range found {
				kinds, lines = append(kinds, string(d.Kind)), append(lines, d.String())
				made[d.Kind] = true
				if d.Subject == "" || d.What == "" || d.Do == "" {
					t.Errorf("not said in full: %+v", d)
				}
			}
			slices.Sort(kinds)
			var want []string
			for _, kind := range c.kinds {
				want = append(want, string(kind))
			}
			if got := slices.Compact(kinds); !slices.Equal(got, want) {
				t.Errorf("found %v, want %v:\n%s", got, want, strings.Join(lines, "\n"))
			}
			if !strings.Contains(strings.Join(lines, "\n"), c.says) {
				t.Errorf("nothing says %q:\n%s", c.says, strings.Join(lines, "\n"))
			}
		})
	}
	for _, kind := range allKinds() {
		if !made[kind] {
			t.Errorf("no case makes %s", kind)
		}
	}
}

func TestVerify_PodsInTransition_NoDifference(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, w *world)
	}{
		{"a pod that waits for its addresses", func(_ *testing.T, w *world) {
			w.pods["new"] = &store.Pod{Meta: store.Meta{UID: "new"}, Namespace: "ns", Name: "new", Node: "node1"}
		}},
		{"a pod that is not bound", func(_ *testing.T, w *world) {
			w.pods["new"] = &store.Pod{Meta: store.Meta{UID: "new"}, Namespace: "ns", Name: "new"}
		}},
		{"a pod that is being deleted and still attached", func(_ *testing.T, w *world) { w.pods["p1"].Deleting = true }},
		{"an address that is being deleted", func(_ *testing.T, w *world) {
			w.claim("blue", "net1", "10.10.1.99", mac1, "node9", store.Holder{Kind: store.HolderPod, UID: "u9"}, "10.10.1.99")
			w.addresses["blue.10.10.1.99"].Deleting = true
		}},
		{"a silent node that is fenced", func(_ *testing.T, w *world) {
			w.dumps["node2"], w.silent["node2"] = nil, "gone"
			w.nodes["node2"].OutOfService = true
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.do(t, w)
			for _, d := range w.compare(t) {
				if d.Kind != MapRowMissing { // a node programs the rows that it hears of
					t.Error(d)
				}
			}
		})
	}
}

// TestVerify_ExpiringLookupRows_NoDifference: a row of an address that has moved or
// gone, and one that no packet uses any more.
func TestVerify_ExpiringLookupRows_NoDifference(t *testing.T) {
	w := newWorld(t)
	w.look("10.10.1.77", "192.0.2.2", mac1)
	w.dumps["node1"].Cached = append(w.dumps["node1"].Cached, nodestatus.CachedRow{
		VNI: 99, IP: netip.MustParseAddr("10.10.1.77"), Node: netip.MustParseAddr("192.0.2.9"), MAC: mac2, Gone: true,
	})
	if found := w.compare(t); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}
