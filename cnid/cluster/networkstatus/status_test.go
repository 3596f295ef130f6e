// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package networkstatus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/cnid/cluster/networkstatus"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
)

var pod = journal.Pod{Namespace: "shop", Name: "web", UID: "uid-web"}

func record(seq uint64, container, ifName, request, attachment string, change func(*journal.Record)) journal.Record {
	rec := journal.Record{
		Identity: journal.Identity{
			Key:        journal.Key{ContainerID: container, IfName: ifName},
			Request:    request,
			Pod:        pod,
			CNINetwork: "alioth",
			Attachment: attachment,
		},
		Seq: seq, Phase: journal.PhaseDone,
	}
	rec.MAC, rec.MTU = journal.MAC{2, 0, 0, 0, 0, byte(seq)}, 1450
	change(&rec)
	return rec
}

func inVPC(vpc, ip, gateway string) func(*journal.Record) {
	return func(rec *journal.Record) {
		rec.VPC, rec.VNI, rec.Addrs = vpc, 7, []netip.Prefix{netip.MustParsePrefix(ip)}
		if gateway != "" {
			rec.Gateways = []netip.Addr{netip.MustParseAddr(gateway)}
		}
	}
}

func outside(network string, routes ...netif.Route) func(*journal.Record) {
	return func(rec *journal.Record) { rec.Outside, rec.Routes, rec.MTU = network, routes, 0 }
}

const reported = `[{"name":"eth0","kind":"veth","vpc":"blue"},{"name":"net1","kind":"veth","vpc":"red","definition":"shop/red"},{"name":"net2","kind":"macvlan","outside":"DanmNet/shop/ext"}]`

func row(status string) *store.Pod {
	return &store.Pod{
		Meta: store.Meta{UID: pod.UID}, Namespace: pod.Namespace, Name: pod.Name, Node: "n1", NetworkReady: true,
		Attachments: reported, Selections: "red", NetworkStatus: status,
	}
}

func records() []journal.Record {
	table := netif.Route{Dst: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("10.9.0.9"), Table: 200}
	return []journal.Record{
		record(4, "new", "net2", "eth0", "net2", outside("DanmNet/shop/ext", table)),
		record(5, "new", "net1", "eth0", "net1", inVPC("red", "10.1.0.5/16", "")),
		record(3, "new", "eth0", "", "eth0", inVPC("blue", "10.0.0.5/16", "10.0.0.1")),
		record(1, "old", "eth0", "", "eth0", inVPC("blue", "10.0.0.4/16", "10.0.0.1")),
	}
}

// sink is an API server that keeps the last patch.
type sink struct {
	mu      sync.Mutex
	patches []string
	fail    int
	got     chan struct{}
}

func (s *sink) Patch(_ context.Context, _ kube.Object, _ types.PatchType, data []byte, subresource ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(subresource) != 1 || subresource[0] != "status" {
		return errors.New("the daemon may patch the status alone")
	}
	if s.fail > 0 {
		s.fail--
		return errors.New("the API server is away")
	}
	s.patches = append(s.patches, string(data))
	s.got <- struct{}{}
	return nil
}

// written is a journal with the records that the function returns.
type written func() []journal.Record

func (w written) Records() []journal.Record { return w() }

func (w written) OfPod(uid string) []journal.Record {
	return slices.DeleteFunc(slices.Clone(w()), func(rec journal.Record) bool { return rec.Pod.UID != uid })
}

// described returns the interfaces of a list in JSON.
func described(t *testing.T, text string) []netif.Interface {
	t.Helper()
	list, err := annotations.ParseAttachments(text)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// putObjects puts the Addresses and AttachmentClaims of a pod's interfaces.
func putObjects(tx store.Tx, p *store.Pod, i int) error {
	list, err := annotations.ParseAttachments(p.Attachments)
	var held []store.Address
	for _, one := range list {
		if one.VPC != "" {
			ip := fmt.Sprintf("10.0.1.%d", i)
			row := testrows.Address(one.VPC, "s", ip, p.Node, p.AsHolder(), ip)
			row.Attachment = one.Name
			held = append(held, row)
		}
	}
	testrows.Configure(held, p.UID, list)
	for _, row := range held {
		err = errors.Join(err, store.PutAddress(tx, &row))
	}
	return errors.Join(err, testrows.PutClaims(tx, p))
}

func run(t *testing.T, s *sink, recs func() []journal.Record, pods ...*store.Pod) *networkstatus.Reporter {
	t.Helper()
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range pods {
		if err := rows.Update(func(tx store.Tx) error { return errors.Join(store.PutPod(tx, p), putObjects(tx, p, i)) }); err != nil {
			t.Fatal(err)
		}
	}
	return report(t, s, rows, recs)
}

// report runs a reporter.
func report(t *testing.T, s *sink, rows *store.Store, recs func() []journal.Record) *networkstatus.Reporter {
	t.Helper()
	r := networkstatus.New(networkstatus.Config{
		API: s, Store: rows, Synced: broadcast.Open, Journal: written(recs), Knowledge: known{}, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { r.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

// The public Go client of the specification reads the written status.
func TestNetworkStatus_PublicClient_ReadsNewestSandbox(t *testing.T) {
	s := &sink{fail: 1, got: make(chan struct{}, 9)}
	run(t, s, records, row(""))
	<-s.got
	var patch struct {
		Metadata struct {
			UID         string            `json:"uid"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal([]byte(s.patches[0]), &patch); err != nil || patch.Metadata.UID != pod.UID {
		t.Fatalf("the patch is %s (%v)", s.patches[0], err)
	}
	object := &corev1.Pod{}
	object.Annotations = patch.Metadata.Annotations
	list, err := nadutils.GetNetworkStatus(object)
	if err != nil {
		t.Fatal(err)
	}
	want := []nadv1.NetworkStatus{
		{Name: "alioth", Interface: "eth0", IPs: []string{"10.0.0.5"}, Mac: "02:00:00:00:00:03", Mtu: 1450, Default: true, Gateway: []string{"10.0.0.1"}},
		{Name: "shop/red", Interface: "net1", IPs: []string{"10.1.0.5"}, Mac: "02:00:00:00:00:05", Mtu: 1450},
		{Name: "DanmNet/shop/ext", Interface: "net2", Mac: "02:00:00:00:00:04", Mtu: 1300},
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNetworkStatus_SinglePodNetwork_NotWritten(t *testing.T) {
	alone := records()[2:3]
	single := described(t, `[{"name":"eth0","kind":"veth","vpc":"blue"}]`)
	if got := networkstatus.Of(single, alone, known{}); got != nil {
		t.Errorf("a pod with one interface has %v, and Multus may serve what it has selected", got)
	}
	single[0].Definition = "shop/blue"
	if got := networkstatus.Of(single, alone, known{}); len(got) != 1 || got[0].Name != "shop/blue" {
		t.Errorf("a pod with a definition has %v", got)
	}
	if got := networkstatus.Of(described(t, reported), records()[:3], known{}); len(got) != 3 {
		t.Errorf("a pod with three interfaces has %v", got)
	}
	// NPWG 1.2: one definition twice is two entries.
	twice := described(t, reported)
	twice[2].Outside, twice[2].Definition = "", "shop/red"
	if got := networkstatus.Of(twice, records()[:3], known{}); len(got) != 3 || got[1].Name != "shop/red" || got[2].Name != "shop/red" ||
		got[1].Interface == got[2].Interface {
		t.Errorf("a pod with one definition twice has %v", got)
	}
}

// TestNetworkStatus_ForgedAnnotation_ObjectsDecide: the status has the names of the definitions, and
// other programs go by it.
func TestNetworkStatus_ForgedAnnotation_ObjectsDecide(t *testing.T) {
	s := &sink{got: make(chan struct{}, 9)}
	forged := row("")
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := rows.Update(func(tx store.Tx) error {
		err := putObjects(tx, forged, 1)
		forged.Attachments = strings.ReplaceAll(reported, "shop/red", "shop/theirs")
		return errors.Join(err, store.PutPod(tx, forged))
	}); err != nil {
		t.Fatal(err)
	}
	report(t, s, rows, records)
	<-s.got
	if !strings.Contains(s.patches[0], `shop/red`) || strings.Contains(s.patches[0], "theirs") {
		t.Errorf("the patch is %s", s.patches[0])
	}
}

// TestNetworkStatus_DescriptionMissing_WrittenWhenComplete: after an upgrade from release 0.1 the
// operator describes the objects of a pod one by one.
func TestNetworkStatus_DescriptionMissing_WrittenWhenComplete(t *testing.T) {
	s := &sink{got: make(chan struct{}, 9)}
	late, other := row(""), row("")
	other.UID, other.Name = "uid-other", "other"
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	described := func(tx store.Tx) *store.Address {
		return store.AddressesByPod(tx, late)[slices.IndexFunc(store.AddressesByPod(tx, late), func(a *store.Address) bool { return a.Attachment == "net1" })]
	}
	var config *netif.VPCConfig
	put := func(change func(tx store.Tx) error) {
		t.Helper()
		if err := rows.Update(change); err != nil {
			t.Fatal(err)
		}
	}
	put(func(tx store.Tx) error {
		if err := errors.Join(store.PutPod(tx, late), putObjects(tx, late, 1), store.PutPod(tx, other), putObjects(tx, other, 2)); err != nil {
			return err
		}
		lacking := *described(tx)
		config, lacking.Config = lacking.Config, nil
		return store.PutAddress(tx, &lacking)
	})
	report(t, s, rows, func() []journal.Record {
		recs := records()
		for _, rec := range records()[:3] {
			rec.Pod = journal.Pod{Namespace: "shop", Name: "other", UID: "uid-other"}
			recs = append(recs, rec)
		}
		return recs
	})
	<-s.got // of the other pod
	put(func(tx store.Tx) error {
		complete := *described(tx)
		complete.Config = config
		return store.PutAddress(tx, &complete)
	})
	<-s.got
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.patches) != 2 || !strings.Contains(s.patches[0], "uid-other") || !strings.Contains(s.patches[1], "shop/red") {
		t.Errorf("written: %s", s.patches)
	}
}

// A second pod shows that the reporter has come past the first one.
func TestNetworkStatus_Unchanged_NotWritten(t *testing.T) {
	text, err := annotations.FormatNetworkStatus(networkstatus.Of(described(t, reported), records()[:3], known{}))
	if err != nil {
		t.Fatal(err)
	}
	other := row("[]")
	other.UID, other.Name = "uid-other", "other"
	var mtu atomic.Int64
	all := func() []journal.Record {
		recs := records()
		for _, rec := range records()[:3] {
			rec.Pod, rec.MTU = journal.Pod{Namespace: "shop", Name: "other", UID: "uid-other"}, int(mtu.Load())
			recs = append(recs, rec)
		}
		return recs
	}
	s := &sink{got: make(chan struct{}, 9)}
	r := run(t, s, all, row(text), other)
	<-s.got // perhaps before the first pod
	mtu.Store(1400)
	r.Attached(journal.Pod{Namespace: "shop", Name: "other", UID: "uid-other"})
	<-s.got
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, patch := range s.patches {
		if !strings.Contains(patch, `"uid":"uid-other"`) {
			t.Errorf("written: %s", patch)
		}
	}
}

// NPWG 1.5: the data describe the pod's interface, with the addresses of its index.
func TestNetworkStatus_DelegatedInterface_PluginResultReported(t *testing.T) {
	addr, prefix, everything := netip.MustParseAddr, netip.MustParsePrefix, netip.MustParsePrefix("0.0.0.0/0")
	interfaces := []ifdriver.ResultInterface{{Name: "br0"}, {Name: "net2", MAC: "02:00:00:00:00:77", MTU: 9000, Sandbox: "/run/netns/x"}}
	ext := "DanmNet/shop/ext"
	for name, tc := range map[string]struct {
		result ifdriver.Result
		asked  []netif.Route
		want   annotations.NetworkStatus
	}{
		"all of a result": {
			ifdriver.Result{
				Interfaces: interfaces, DNS: ifdriver.ResultDNS{Nameservers: []string{"192.0.2.53"}},
				Addrs:  []ifdriver.ResultAddr{{Addr: prefix("192.0.2.5/24"), Interface: 1}},
				Routes: []ifdriver.ResultRoute{{Dst: prefix("198.51.100.0/24"), Gateway: addr("192.0.2.1")}},
			},
			nil,
			annotations.NetworkStatus{
				Name: ext, Interface: "net2", IPs: []netip.Addr{addr("192.0.2.5")}, MAC: "02:00:00:00:00:77", MTU: 9000,
				DNS: annotations.StatusDNS{Nameservers: []string{"192.0.2.53"}},
			},
		},
		"addresses of other interfaces are not the pod's": {
			ifdriver.Result{Interfaces: interfaces, Addrs: []ifdriver.ResultAddr{{Addr: prefix("192.0.2.1/24"), Interface: 0}, {Addr: prefix("192.0.2.5/24"), Interface: 1}}},
			nil,
			annotations.NetworkStatus{Name: ext, Interface: "net2", IPs: []netip.Addr{addr("192.0.2.5")}, MAC: "02:00:00:00:00:77", MTU: 9000},
		},
		"a result without interfaces": {
			ifdriver.Result{Addrs: []ifdriver.ResultAddr{{Addr: prefix("192.0.2.5/24"), Interface: -1}}},
			nil,
			annotations.NetworkStatus{Name: ext, Interface: "net2", MTU: 1300, IPs: []netip.Addr{addr("192.0.2.5")}},
		},
		"an empty result is a minimal entry": {ifdriver.Result{}, nil, annotations.NetworkStatus{Name: ext, Interface: "net2", MTU: 1300}},
		"the plugin's default route, by the gateway of the address": {
			ifdriver.Result{Addrs: []ifdriver.ResultAddr{{Addr: prefix("192.0.2.5/24"), Gateway: addr("192.0.2.1"), Interface: -1}}, Routes: []ifdriver.ResultRoute{{Dst: everything}}},
			nil,
			annotations.NetworkStatus{Name: ext, Interface: "net2", MTU: 1300, IPs: []netip.Addr{addr("192.0.2.5")}, Gateways: []netip.Addr{addr("192.0.2.1")}},
		},
		"the default route that the pod requests": {
			ifdriver.Result{Routes: []ifdriver.ResultRoute{{Dst: everything, Gateway: addr("192.0.2.9")}}},
			[]netif.Route{{Dst: everything, Gateway: addr("192.0.2.9")}},
			annotations.NetworkStatus{Name: ext, Interface: "net2", MTU: 1300, Gateways: []netip.Addr{addr("192.0.2.9")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			recs := records()[:3]
			recs[0].Routes = tc.asked
			list := networkstatus.Of(described(t, reported), recs, known{result: &tc.result})
			if diff := cmp.Diff(tc.want, list[2], cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// known stands for a node whose one device with virtual functions is at 0000:03:00.0, and whose
// pods have interfaces with an MTU of 1300.
type known struct {
	// result is the report about the attachment net2; nil if Alioth itself has made it.
	result *ifdriver.Result
	// files has the files about devices by path.
	files map[string]*annotations.DeviceInfo
}

func (k known) Reported(rec journal.Record) *ifdriver.Result {
	if rec.Attachment != "net2" {
		return nil
	}
	return k.result
}

func (known) PF(string) string                                { return "0000:03:00.0" }
func (known) MTU(journal.Record) int                          { return 1300 }
func (k known) Described(path string) *annotations.DeviceInfo { return k.files[path] }

func TestNetworkStatus_VirtualFunction_DeviceInfoPresent(t *testing.T) {
	recs := records()[:3]
	recs[0].PCI = "0000:03:10.1"
	list := networkstatus.Of(described(t, reported), recs, known{})
	want := &annotations.DeviceInfo{Type: "pci", Version: "1.1.0", PCI: &annotations.PCIDevice{Address: "0000:03:10.1", PFAddress: "0000:03:00.0"}}
	if diff := cmp.Diff(want, list[2].DeviceInfo); diff != "" {
		t.Errorf("of %s (-want +got):\n%s", list[2].Interface, diff)
	}
	if list[0].DeviceInfo != nil || list[1].DeviceInfo != nil {
		t.Errorf("interfaces without a device have some: %+v", list)
	}
	text, err := annotations.FormatNetworkStatus(list)
	if part := `"device-info":{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:03:10.1","pf-pci-address":"0000:03:00.0"}}`; err != nil ||
		!strings.Contains(text, part) {
		t.Errorf("%v: %s lacks %s", err, text, part)
	}
}

// The description of a CNI plugin precedes the description of a device plugin. The node's own
// knowledge comes last.
func TestNetworkStatus_SeveralDeviceSources_BestSourceUsed(t *testing.T) {
	cni := &annotations.DeviceInfo{Type: "vhost-user", Version: "1.1.0", VhostUser: &annotations.VhostUserDevice{Mode: "client", Path: "/run/vhost.sock"}}
	dp := &annotations.DeviceInfo{Type: "pci", Version: "1.1.0", PCI: &annotations.PCIDevice{Address: "0000:03:10.1", RDMADevice: "mlx5_1"}}
	files := map[string]*annotations.DeviceInfo{}
	result := &ifdriver.Result{Interfaces: []ifdriver.ResultInterface{{Name: "net2", Sandbox: "/run/netns/x", PCIID: "0000:03:10.1"}}}
	of := func(result *ifdriver.Result, change func(*journal.Record)) *annotations.DeviceInfo {
		recs := records()[:3]
		change(&recs[0])
		return networkstatus.Of(described(t, reported), recs, known{result, files})[2].DeviceInfo
	}
	own := func(rec *journal.Record) { rec.PCI, rec.Pool = "0000:03:10.1", "vendor.example/fast" }
	bare := func(*journal.Record) {}
	pf := &annotations.DeviceInfo{Type: "pci", Version: "1.1.0", PCI: &annotations.PCIDevice{Address: "0000:03:10.1", PFAddress: "0000:03:00.0"}}
	if diff := cmp.Diff(pf, of(result, bare)); diff != "" {
		t.Errorf("by the result of a plugin (-want +got):\n%s", diff)
	}
	files["/var/run/k8s.cni.cncf.io/devinfo/dp/vendor.example-fast-0000:03:10.1-device.json"] = dp
	if diff := cmp.Diff(dp, of(nil, own)); diff != "" {
		t.Errorf("by the device plugin (-want +got):\n%s", diff)
	}
	files["/var/run/k8s.cni.cncf.io/devinfo/cni/uid-web-net2.json"] = cni
	if diff := cmp.Diff(cni, of(result, bare)); diff != "" {
		t.Errorf("by the CNI plugin (-want +got):\n%s", diff)
	}
}
