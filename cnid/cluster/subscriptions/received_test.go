// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package subscriptions

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/client/reflector"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/kinds/core"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
	"github.com/alioth-net/alioth/test/waits"
)

// patience bounds every wait; a busy machine must not fail a test.
const patience = time.Minute

// received counts the objects that a client gets in lists and watches, by kind and name.
type received struct {
	next http.RoundTripper

	mu      sync.Mutex
	objects map[string]int
	changed broadcast.Signal
}

// RoundTrip implements http.RoundTripper.
func (r *received) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err != nil || request.Method != http.MethodGet {
		return response, err
	}
	reader, writer := io.Pipe()
	go r.read(reader)
	response.Body = &teed{ReadCloser: response.Body, copies: writer}
	return response, nil
}

// answer is an event of a watch, or a list; a single object is neither.
type answer struct {
	Object json.RawMessage
	Kind   string
	Items  []metav1.PartialObjectMetadata
}

// read counts the objects of an answer.
func (r *received) read(body *io.PipeReader) {
	decoder := json.NewDecoder(body)
	for {
		var got answer
		if err := decoder.Decode(&got); err != nil {
			_, _ = io.Copy(io.Discard, body)
			return
		}
		var one metav1.PartialObjectMetadata
		if got.Object != nil && json.Unmarshal(got.Object, &one) == nil {
			r.add(one.Kind, one.Name)
		}
		for _, item := range got.Items {
			r.add(strings.TrimSuffix(got.Kind, "List"), item.Name)
		}
	}
}

func (r *received) add(kind, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.objects[kind+" "+name]++
	r.changed.Send()
}

// event returns a channel that is closed with the next event.
func (r *received) event() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed.Next()
}

// count returns the number of events that named the object.
func (r *received) count(object string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.objects[object]
}

// teed copies the bytes that are read.
type teed struct {
	io.ReadCloser
	copies *io.PipeWriter
}

func (b *teed) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if _, failed := b.copies.Write(p[:n]); failed != nil && err == nil {
		err = failed
	}
	return n, err
}

func (b *teed) Close() error {
	b.copies.Close()
	return b.ReadCloser.Close()
}

// node follows the objects of the tests' API server, as a node does.
type node struct {
	*Sources
	api      *kube.Client
	rows     *store.Store
	received *received
}

// of are the kinds whose scopes depend on VPCs, and the kinds that decide about these VPCs.
var of = []*descriptor.Kind{
	vpcs.VPC.Kind, vpcs.Subnet.Kind, vpcs.Address.Kind, core.Service.Kind, core.Namespace.Kind, vpcs.Network.Kind,
}

// newNode returns a node whose requests go through the wraps of the way to the API server.
func newNode(t *testing.T, cfg Config, records journal.Reader, wraps ...func(http.RoundTripper) http.RoundTripper) *node {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	counted := &received{objects: map[string]int{}}
	config := server.Config(t)
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { counted.next = next; return counted })
	for _, wrap := range wraps {
		config.Wrap(wrap)
	}
	api, err := kube.New(config, scheme)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	if cfg.Kinds = of; cfg.ScaledEndpoints {
		cfg.Kinds = WithVerdicts(append(slices.Clone(of), core.Pod.Kind, vpcs.ScaledEndpoint.Kind))
	}
	return &node{New(cfg, api, reflector.NewSet(rows, api, log), rows, records, log), api, rows, counted}
}

// run follows until the test ends, and returns when everything has been read.
func (n *node) run(t *testing.T) {
	t.Helper()
	n.Start(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); n.Run(t.Context()) }()
	t.Cleanup(func() { <-done })
	n.await(t, "everything is read", n.Synced)
}

// await waits until state returns true.
func (n *node) await(t *testing.T, what string, state broadcast.Gate) {
	t.Helper()
	deadline := time.After(waits.Limit(patience))
	for {
		reached, changed := state()
		if reached {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// see waits for rows.
func (n *node) see(t *testing.T, what string, check func(tx store.ReadTx) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(patience))
	defer cancel()
	if err := n.rows.Wait(ctx, func(tx store.ReadTx, _ *store.WatchSet) bool { return check(tx) }); err != nil {
		t.Fatalf("waited in vain: %s", what)
	}
}

func (n *node) create(t *testing.T, objects ...kube.Object) {
	t.Helper()
	for _, object := range objects {
		if err := n.api.Create(t.Context(), object); err != nil {
			t.Fatalf("create %s: %v", object.GetName(), err)
		}
		t.Cleanup(func() { _ = n.api.Delete(context.Background(), object, object.GetUID()) })
	}
}

func vpcNamed(name string) *v1alpha1.VPC {
	return &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.VPCSpec{CIDRs: []string{"10.10.0.0/16"}}}
}

func subnetOf(vpc, name string) *v1alpha1.Subnet {
	return &v1alpha1.Subnet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.SubnetSpec{VPC: vpc, CIDRs: []string{"10.10.1.0/24"}}}
}

func addressIn(vpc, subnet, ip, node string) *v1alpha1.Address {
	return &v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressName(vpc, netip.MustParseAddr(ip))},
		Spec: v1alpha1.AddressSpec{
			VPC: vpc, Subnet: subnet, IP: ip, MAC: "02:00:00:00:00:01", Node: node, Set: []string{ip},
			Attachment: v1alpha1.PodAttachment,
			Holder:     v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: "ns", Name: "p", UID: "u-" + ip},
		},
	}
}

// TestSubscription_UnusedVPC_NothingReceived counts the events of a real API server.
func TestSubscription_UnusedVPC_NothingReceived(t *testing.T) {
	n := newNode(t, Config{Node: "counts-1", DefaultVPC: "counts-default"}, fixed(nil))
	n.create(t, vpcNamed("counts-default"), vpcNamed("counts-hosted"), vpcNamed("counts-other"),
		subnetOf("counts-hosted", "counts-hosted-a"), subnetOf("counts-other", "counts-other-a"),
		addressIn("counts-hosted", "counts-hosted-a", "10.10.1.1", "counts-1"))
	n.run(t)
	n.create(t, subnetOf("counts-other", "counts-other-b"), addressIn("counts-other", "counts-other-a", "10.10.1.2", "counts-2"))
	other := vpcNamed("counts-other")
	if err := n.api.Get(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	other.Labels = map[string]string{"changed": "yes"}
	if err := n.api.Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	// Later objects of the same kinds: the API server sends the events of a kind in order.
	hosted := vpcNamed("counts-hosted")
	if err := n.api.Get(t.Context(), hosted); err != nil {
		t.Fatal(err)
	}
	hosted.Spec.AllowedTenants = []string{"changed"}
	if err := n.api.Update(t.Context(), hosted); err != nil {
		t.Fatal(err)
	}
	far := addressIn("counts-hosted", "counts-hosted-a", "10.10.1.3", "counts-2")
	n.create(t, subnetOf("counts-hosted", "counts-hosted-b"), far)
	n.see(t, "rows of the hosted VPC", func(tx store.ReadTx) bool {
		vpc := store.GetVPC(tx, hosted.Name)
		return vpc != nil && len(vpc.AllowedTenants) == 1 && store.GetSubnet(tx, "counts-hosted-b") != nil && store.GetAddress(tx, far.Name) != nil
	})
	// The copy of an answer is counted behind the rows.
	n.await(t, "the Address is counted", func() (bool, <-chan struct{}) {
		next := n.received.event()
		return n.received.count("Address "+far.Name) > 0 && n.received.count("Subnet counts-hosted-b") > 0 && n.received.count("VPC counts-hosted") > 1, next
	})
	for object, want := range map[string]int{
		"VPC counts-default": 1, "VPC counts-hosted": 2, "Subnet counts-hosted-a": 1, "Subnet counts-hosted-b": 1, "Address " + far.Name: 1,
		"VPC counts-other": 0, "Subnet counts-other-a": 0, "Subnet counts-other-b": 0, "Address counts-other.10.10.1.2": 0,
	} {
		if got := n.received.count(object); got != want {
			t.Errorf("%d times %s, want %d", got, object, want)
		}
	}
}

// TestSubscription_NewPodVPC_ReadBeforeCounted has a VPC that comes and goes with an Address.
func TestSubscription_NewPodVPC_ReadBeforeCounted(t *testing.T) {
	n := newNode(t, Config{Node: "reads-1", DefaultVPC: "reads-default"}, fixed(nil))
	blue, one := vpcNamed("reads-blue"), subnetOf("reads-blue", "reads-one")
	n.create(t, blue, one, vpcNamed("reads-red"))
	n.run(t)
	if n.DomainSynced("reads-blue").IsOpen() {
		t.Error("a VPC that nothing follows counts as read")
	}
	mine := addressIn("reads-blue", "reads-one", "10.10.1.1", "reads-1")
	n.create(t, mine)
	n.await(t, "the VPC counts as read", n.DomainSynced("reads-blue"))
	n.rows.View(func(tx store.ReadTx) {
		if store.GetVPC(tx, "reads-blue") == nil || store.GetSubnet(tx, "reads-one") == nil {
			t.Error("the VPC counts as read without its rows")
		}
	})
	// The subnet's name belongs to another VPC afterwards, the VPC's name to another VPC.
	for _, object := range []kube.Object{one, blue} {
		if err := n.api.Delete(t.Context(), object, object.GetUID()); err != nil {
			t.Fatal(err)
		}
	}
	again := vpcNamed("reads-blue")
	n.create(t, subnetOf("reads-red", "reads-one"), again)
	n.see(t, "the successor's row, and none of the subnet", func(tx store.ReadTx) bool {
		vpc := store.GetVPC(tx, "reads-blue")
		return vpc != nil && vpc.UID == string(again.UID) && store.GetSubnet(tx, "reads-one") == nil
	})
	if err := n.api.Delete(t.Context(), mine, mine.UID); err != nil {
		t.Fatal(err)
	}
	n.see(t, "nothing of the VPC", func(tx store.ReadTx) bool { return store.GetVPC(tx, "reads-blue") == nil })
	if n.DomainSynced("reads-blue").IsOpen() {
		t.Error("a VPC that is followed no longer counts as read")
	}
}

// TestSubscription_NodeRestart_AttachedVPCReadFirst: a pass with fewer rows would remove them.
func TestSubscription_NodeRestart_AttachedVPCReadFirst(t *testing.T) {
	records := []journal.Record{{Binding: journal.Binding{VPC: "restart-blue", VNI: 20}}}
	n := newNode(t, Config{Node: "restart-1", DefaultVPC: "restart-default"}, fixed(records))
	n.create(t, vpcNamed("restart-blue"), subnetOf("restart-blue", "restart-one"))
	n.run(t)
	n.rows.View(func(tx store.ReadTx) {
		if store.GetVPC(tx, "restart-blue") == nil || store.GetSubnet(tx, "restart-one") == nil {
			t.Error("everything counts as read without the VPC of an attachment")
		}
	})
	if got := n.VPCs(); !slices.Contains(got, "restart-blue") {
		t.Errorf("the node tells of %v", got)
	}
	n.stop(part{domain: "restart-blue"}) // as if it had been found to be unused before the record was written
	if !n.DomainSynced("restart-blue").IsOpen() {
		t.Error("the VPC of an attachment is no longer followed")
	}
}

// TestSubscription_ServicesForOutsideClients_VPCFollowed has more of them than get watches of their own.
func TestSubscription_ServicesForOutsideClients_VPCFollowed(t *testing.T) {
	n := newNode(t, Config{Node: "outside-1", DefaultVPC: "outside-default", NodePorts: true}, fixed(nil))
	n.create(t, vpcNamed("outside-0"), subnetOf("outside-0", "outside-net"))
	service := func(tx store.Tx, i int) error {
		name := fmt.Sprintf("outside-%d", i)
		meta := store.Meta{UID: name}
		err := store.PutNetwork(tx, &store.Network{Meta: meta, Namespace: "outside", Name: name, Type: "vpc", VPC: name, Tenant: "t"})
		if err != nil {
			return err
		}
		return store.PutService(tx, &store.Service{
			Meta: meta, Namespace: "outside", Name: name, Network: name, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
			Ports: []store.ServicePort{{Protocol: "TCP", Port: 80, NodePort: uint16(30000 + i)}},
		})
	}
	n.run(t)
	put := func(first, count int) {
		t.Helper()
		err := n.rows.Update(func(tx store.Tx) error {
			if err := store.PutNamespace(tx, &store.Namespace{Meta: store.Meta{UID: "outside"}, Name: "outside", Tenant: "t"}); err != nil {
				return err
			}
			for i := range count {
				if err := service(tx, first+i); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put(0, 1)
	has := func(tx store.ReadTx) bool { return store.GetVPC(tx, "outside-0") != nil }
	n.see(t, "the VPC of the Service", has)
	for _, object := range []string{"Subnet outside-net"} {
		if got := n.received.count(object); got != 0 {
			t.Errorf("%d events of %s", got, object)
		}
	}
	if synced := n.DomainSynced("outside-0").IsOpen(); synced || len(n.VPCs()) != 1 {
		t.Errorf("the node may program %v, and the VPC counts as read: %v", n.VPCs(), synced)
	}
	missing := n.watchFor(t, has)
	const ofDefault = 3 // the VPC, its Subnets and its Addresses
	put(1, exposedAtMost)
	n.await(t, "one watch for all", func() (bool, <-chan struct{}) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.parts[everyExposed] != nil && n.parts[everyExposed].synced() && len(n.parts) == ofDefault+1, n.changed.Next()
	})
	err := n.rows.Update(func(tx store.Tx) error { store.DeleteService(tx, "outside", "outside-1", "outside-1"); return nil })
	if err != nil {
		t.Fatal(err)
	}
	n.await(t, "a watch for each again", func() (bool, <-chan struct{}) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.parts[everyExposed] == nil && len(n.parts) == ofDefault+exposedAtMost, n.changed.Next()
	})
	if missing() {
		t.Error("the VPC's row was missing in between")
	}
	if len(n.scopes) != ofDefault+exposedAtMost {
		t.Errorf("%d scopes are followed, want one for each VPC, and those of the default VPC", len(n.scopes))
	}
}

// watchFor examines every version of the store from now on; the result reports whether a row
// was missing in one.
func (n *node) watchFor(t *testing.T, has func(store.ReadTx) bool) (missing func() bool) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan bool, 1)
	go func() {
		done <- n.rows.Wait(ctx, func(tx store.ReadTx, _ *store.WatchSet) bool { return !has(tx) }) == nil
	}()
	return func() bool { cancel(); return <-done }
}

// TestSubscription_SeveralPartsOfVPC_WatchesShared: an interface of another CNI plugin needs no Addresses.
func TestSubscription_SeveralPartsOfVPC_WatchesShared(t *testing.T) {
	got := map[string]int{}
	scopes := sharedScopes{}
	for _, extent := range []descriptor.Extent{
		descriptor.CarriedVPC, descriptor.AllSubnets, descriptor.AllAddresses, descriptor.DescribedVPC, descriptor.ExposedVPC,
	} {
		p := part{domain: "blue", extent: extent}
		for _, scope := range scopesOf(of, p) {
			got[scope.Kind.Name+" "+scope.Fields.String()]++
			scopes.join(keyOf(scope), func(*sharedScope) *reflector.Source { return new(reflector.Source) })
		}
	}
	want := map[string]int{"VPC metadata.name=blue": 3, "Subnet spec.vpc=blue": 2, "Address spec.vpc=blue": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scopes (-want +got):\n%s", diff)
	}
	keys := slices.Collect(maps.Keys(scopes))
	if unused := scopes.leave(keys); len(unused) != 1 || len(scopes) != 2 {
		t.Errorf("%d of %d sources end with one of the parts, want that of the Addresses", len(unused), len(keys))
	}
}

// TestRollCallReply_ProgrammableVPCUnread_Waits: without its row a VPC has no VNI.
func TestRollCallReply_ProgrammableVPCUnread_Waits(t *testing.T) {
	s := New(Config{Kinds: of}, nil, nil, nil, fixed(nil), slog.New(slog.DiscardHandler))
	s.complete = true
	for _, c := range []struct {
		part part
		f    subscription
		read bool
	}{
		{part{domain: "blue"}, subscription{confirmed: true}, true},
		{part{domain: "u1.net", extent: descriptor.ServedNetwork}, subscription{}, true},
		{part{domain: "red", extent: descriptor.ExposedVPC}, subscription{}, true},
		{part{domain: "red"}, subscription{}, false},
	} {
		s.parts[c.part] = &c.f
		if read, _ := s.VPCsRead(); read != c.read {
			t.Errorf("with %s: everything for a reply has been read: %v", c.part, read)
		}
	}
	if synced, _ := s.Synced(); !synced {
		t.Error("passes wait for a VPC that was added later")
	}
}
