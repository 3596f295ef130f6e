// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/kube"
	"github.com/alioth-net/alioth/store/reflector"
	"github.com/alioth-net/alioth/test/api/apiserver"
)

var server apiserver.Shared

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

func noRecords() []journal.Record { return nil }

// TestAVPCThatIsFollowedLaterIsTakenAsTheAPIHasIt is about a VPC that has gone and
// come again with another VNI, of which the node has the old row still.
func TestAVPCThatIsFollowedLaterIsTakenAsTheAPIHasIt(t *testing.T) {
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
	s := New(Config{Kinds: kinds.All()}, api, reflector.NewSet(rows, api, log), rows, noRecords, log)
	s.complete = true // the node may have answered a roll call
	s.add(t.Context(), part{vpc: vpc.Name})
	if diff := cmp.Diff([]string{vpc.Name}, s.VPCs()); diff != "" {
		t.Errorf("VPCs that the node tells of (-want +got):\n%s", diff)
	}
	for source := s.parts[part{vpc: vpc.Name}].sources[0]; ; {
		_, changed := s.Synced()
		if source.HasSynced() {
			break
		}
		<-changed
	}
	if s.agrees(t.Context(), vpc.Name) {
		t.Error("the old row is taken for the new one")
	}
	if synced, _ := s.VPCSynced(vpc.Name); synced {
		t.Error("the VPC counts as read with its old row")
	}
	put(string(vpc.UID), 0)
	for {
		synced, changed := s.VPCSynced(vpc.Name)
		if synced {
			break
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal("the VPC never counts as read")
		}
	}
	s.stop(part{vpc: vpc.Name})
	if names := s.VPCs(); len(names) > 0 {
		t.Errorf("the node still tells of %v", names)
	}
}

func TestAnAttachmentOutsideOfEveryVPCNeedsNoneToBeFollowed(t *testing.T) {
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
	s := New(Config{Node: "node1", DefaultVPC: "default"}, nil, nil, rows, noRecords, slog.New(slog.DiscardHandler))
	var got map[part]bool
	rows.View(func(tx store.ReadTx) { got = s.find(tx, records) })
	if len(got) != 2 || !got[part{vpc: "blue"}] || !got[part{vpc: "default"}] {
		t.Errorf("followed are %v, want those of the default VPC and of blue", got)
	}
}
