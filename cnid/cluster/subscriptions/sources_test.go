// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package subscriptions

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/client/reflector"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/kinds/nmstateapi"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rows/scaled"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/waits"
)

var server apiserver.Shared

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

// fixed has the same records always.
type fixed []journal.Record

func (f fixed) Records() []journal.Record { return f }

// TestSubscription_VPCRecreatedBeforeFollowed_APIStateTaken is about a VPC that has gone and come again
// with a new VNI. The node still has the old row.
func TestSubscription_VPCRecreatedBeforeFollowed_APIStateTaken(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api, err := kube.New(server.Config(t), scheme)
	if err != nil {
		t.Fatal(err)
	}
	vpc := &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: "again"}, Spec: v1alpha1.VPCSpec{CIDRs: []string{"10.10.0.0/16"}}}
	if err := api.Create(t.Context(), vpc); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Delete(context.Background(), vpc, vpc.UID); err != nil {
			t.Error(err)
		}
	})
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	put := func(uid string, vni uint32) {
		err := rows.Update(func(tx store.Tx) error {
			return store.PutVPC(tx, &store.VPC{Meta: store.Meta{UID: uid}, Name: vpc.Name, VNI: vni})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put("before", 20)
	log := slog.New(slog.DiscardHandler)
	// The test puts the VPC's row in the place of a source that lags.
	s := New(Config{Kinds: []*descriptor.Kind{vpcs.Subnet.Kind, vpcs.Address.Kind}}, api, reflector.NewSet(rows, api, log), rows, fixed(nil), log)
	s.complete = true // the node may have answered a roll call
	s.add(t.Context(), part{domain: vpc.Name})
	if diff := cmp.Diff([]string{vpc.Name}, s.VPCs()); diff != "" {
		t.Errorf("VPCs that the node tells of (-want +got):\n%s", diff)
	}
	if s.agrees(t.Context(), vpc.Name) {
		t.Error("the old row is taken for the new one")
	}
	if s.DomainSynced(vpc.Name).IsOpen() || s.Hosts(vpc.Name) {
		t.Error("the VPC counts as read with its old row")
	}
	put(string(vpc.UID), 0)
	for {
		synced, changed := s.DomainSynced(vpc.Name)()
		if synced {
			break
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal("the VPC never counts as read")
		}
	}
	if !s.Hosts(vpc.Name) {
		t.Error("the node does not have the VPC with its new row")
	}
	s.stop(part{domain: vpc.Name})
	if names := s.VPCs(); len(names) > 0 || s.Hosts(vpc.Name) {
		t.Errorf("the node still tells of %v", names)
	}
}

// TestSubscription_NetworkWithServices_FollowedWhileUsed: without Services nothing needs the addresses
// of a network, and there may be many.
func TestSubscription_NetworkWithServices_FollowedWhileUsed(t *testing.T) {
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	network := store.NetworkRef{Kind: "DanmNet", Namespace: "ns", Name: "internal", UID: "u1"}
	claim := multinet.Claim{Meta: store.Meta{UID: "a"}, Namespace: "ns", Name: "pod.net1", Node: "node1", Network: network}
	slice := store.EndpointSlice{Meta: store.Meta{UID: "s"}, Namespace: "ns", Name: "web-1", Service: "web", Domain: network.Domain()}
	s := New(Config{Node: "node1", DefaultVPC: "default", Kinds: kinds.All()}, nil, nil, rows, fixed(nil), slog.New(slog.DiscardHandler))
	for _, c := range []struct {
		name   string
		change func(tx store.Tx) error
		needed bool
	}{
		{"an attachment", func(tx store.Tx) error { return multinet.PutClaim(tx, &claim) }, false},
		{"and a Service", func(tx store.Tx) error { return store.PutEndpointSlice(tx, &slice) }, true},
		{"an attachment that is released", func(tx store.Tx) error {
			released := claim
			released.Released = true
			return multinet.PutClaim(tx, &released)
		}, false},
		{"an attachment again", func(tx store.Tx) error { return multinet.PutClaim(tx, &claim) }, true},
		{"an attachment on another node", func(tx store.Tx) error {
			elsewhere := claim
			elsewhere.Node = "node2"
			return multinet.PutClaim(tx, &elsewhere)
		}, false},
		{"here again", func(tx store.Tx) error { return multinet.PutClaim(tx, &claim) }, true},
		{"no Service any more", func(tx store.Tx) error { store.DeleteEndpointSlice(tx, "ns", "web-1", "s"); return nil }, false},
	} {
		if err := rows.Update(c.change); err != nil {
			t.Fatal(err)
		}
		var needed map[part]bool
		rows.View(func(tx store.ReadTx) { needed = s.needed(tx) })
		if got := needed[part{domain: "u1.net", extent: descriptor.ServedNetwork}]; got != c.needed {
			t.Errorf("%s: the network is needed: %v, want %v", c.name, got, c.needed)
		}
		if synced := s.DomainSynced("u1.net").IsOpen(); synced == c.needed {
			t.Errorf("%s: everything of the network has been read: %v", c.name, synced)
		}
	}
	scopes := scopesOf([]*descriptor.Kind{vpcs.Address.Kind}, part{domain: "u1.net", extent: descriptor.ServedNetwork})
	if len(scopes) != 1 || scopes[0].Kind.Name != "Address" || scopes[0].Fields.String() != "spec.network.uid=u1" {
		t.Errorf("followed is %+v, want the Addresses of the network", scopes)
	}
	s.parts[part{domain: "u1.net", extent: descriptor.ServedNetwork}] = &subscription{}
	if names := s.VPCs(); len(names) > 0 {
		t.Errorf("the node tells of the VPCs %v", names)
	}
}

// TestSubscription_IndependentKinds_Awaited: of two kinds, the API has one.
func TestSubscription_IndependentKinds_Awaited(t *testing.T) {
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/nodenetworkstates") || r.URL.Query().Has("watch") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"NodeNetworkStateList","apiVersion":"nmstate.io/v1beta1","metadata":{"resourceVersion":"7"},"items":[]}`)
	}))
	t.Cleanup(answers.Close)
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api, err := kube.New(&rest.Config{Host: answers.URL}, scheme)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(time.Minute))
	defer cancel()
	present, absent := nmstateapi.NodeNetworkState.Kind, nmstateapi.NodeNetConfPolicy.Kind
	log := slog.New(slog.DiscardHandler)
	s := New(Config{Node: "node1", Kinds: []*descriptor.Kind{present, absent}}, api, reflector.NewSet(rows, api, log), rows, fixed(nil), log)
	one := s.AllSynced([]*descriptor.Kind{present})
	if synced, _ := one(); synced {
		t.Error("a kind counts as read before it is followed")
	}
	s.Start(ctx)
	for synced, changed := one(); !synced; synced, changed = one() {
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatal("the kind never counts as read")
		}
	}
	for name, list := range map[string][]*descriptor.Kind{"the API lacks": {present, absent}, "is not followed": {present, vpcs.VPC.Kind}} {
		if synced, _ := s.AllSynced(list)(); synced {
			t.Errorf("a kind that %s counts as read", name)
		}
	}
}

func TestSubscription_AttachmentOutsideVPC_NoneFollowed(t *testing.T) {
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	records := []journal.Record{{Binding: journal.Binding{VPC: "blue", VNI: 20}}, {Binding: journal.Binding{Outside: "physical"}}}
	outside := &store.Address{
		Meta: store.Meta{UID: "a"}, Name: "u1.net.10.0.0.1", Network: store.NetworkRef{Kind: "DanmNet", Namespace: "ns", Name: "internal", UID: "u1"},
		IP: netip.MustParseAddr("10.0.0.1"), Node: "node1",
	}
	if err := rows.Update(func(tx store.Tx) error { return store.PutAddress(tx, outside) }); err != nil {
		t.Fatal(err)
	}
	s := New(Config{Node: "node1", DefaultVPC: "default"}, nil, nil, rows, fixed(nil), slog.New(slog.DiscardHandler))
	var got map[part]bool
	rows.View(func(tx store.ReadTx) { got = s.find(tx, records) })
	if len(got) != 2 || !got[part{domain: "blue"}] || !got[part{domain: "default"}] {
		t.Errorf("followed are %v, want those of the default VPC and of blue", got)
	}
}

// TestSync_ServicesUnjudged_Waits: with none of the verdicts it would take all
// Services away.
func TestSync_ServicesUnjudged_Waits(t *testing.T) {
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Node: "node1", DefaultVPC: "default", ScaledEndpoints: true}, nil, nil, rows, fixed(nil), slog.New(slog.DiscardHandler))
	found := func(row *scaled.Endpoint) (judged bool) {
		if err := rows.Update(func(tx store.Tx) error { return scaled.Put(tx, row) }); err != nil {
			t.Fatal(err)
		}
		rows.View(func(tx store.ReadTx) { judged = s.findJudged(tx) })
		return judged
	}
	id := scaled.ID{Namespace: "default", Service: "kubernetes", Exposed: true}
	all := &scaled.Head{AllJudged: v1alpha1.ScaledVersion}
	for what, row := range map[string]*scaled.Endpoint{
		"another Service is": {Name: "web", ID: scaled.ID{Namespace: "shop", Service: "web"}, Head: all},
		"a part is":          {Name: "part", ID: id, Part: 1},
		"of an earlier time": {Name: "head", ID: id, Head: &scaled.Head{}},
		"of an old operator": {Name: "head", ID: id, Head: &scaled.Head{AllJudged: v1alpha1.ScaledVersion - 1}},
	} {
		if found(row) {
			t.Errorf("all is judged, but the verdict is %s", what)
		}
	}
	_, changed := s.DomainSynced("default")()
	if !found(&scaled.Endpoint{Name: "head", ID: id, Head: all}) || !s.judged {
		t.Error("the Service of the API server is judged, and so all is")
	}
	select {
	case <-changed:
	default:
		t.Error("nobody was told")
	}
	if found(&scaled.Endpoint{Name: "head", ID: id, Head: &scaled.Head{AllJudged: v1alpha1.ScaledVersion, Tenant: "x"}}) {
		t.Error("it is told once more")
	}
}
