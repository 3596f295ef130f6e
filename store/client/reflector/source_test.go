// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/client/reflector"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/waits"
)

var server apiserver.Shared

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

// patience bounds a wait for what should come at once on an idle machine.
const patience = time.Minute

func newClient(t *testing.T, config *rest.Config) *kube.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := kube.New(config, scheme)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func address(vpc, node, ip string) *v1alpha1.Address {
	obj := &v1alpha1.Address{Spec: v1alpha1.AddressSpec{
		VPC: vpc, Subnet: "net1", IP: ip, MAC: "02:00:0a:00:00:01", Node: node, Attachment: "eth0",
		Set:    []string{ip},
		Holder: v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: "shop", Name: "web", UID: "u"},
	}}
	obj.Name = v1alpha1.AddressName(vpc, netip.MustParseAddr(ip))
	return obj
}

func create(t *testing.T, c *kube.Client, objects ...kube.Object) {
	t.Helper()
	for _, obj := range objects {
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			err := c.Delete(context.WithoutCancel(t.Context()), obj, obj.GetUID())
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		})
	}
}

// waitFor fails the test unless the store comes to hold exactly these
// addresses.
func waitFor(t *testing.T, s *store.Store, want ...*v1alpha1.Address) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(patience))
	defer cancel()
	var held []*store.Address
	err := s.Wait(ctx, func(tx store.ReadTx, _ *store.WatchSet) bool {
		held = store.ListAddresses(tx)
		for _, obj := range want {
			if row := store.GetAddress(tx, obj.Name); row == nil || row.UID != string(obj.UID) {
				return false
			}
		}
		return len(held) == len(want)
	})
	if err != nil {
		t.Fatalf("the store holds %d addresses, want %d certain ones: %v", len(held), len(want), err)
	}
}

func start(t *testing.T, set *reflector.Set, scope descriptor.Scope) *reflector.Source {
	t.Helper()
	synced := make(chan struct{})
	source := set.Start(t.Context(), scope, func() { close(synced) })
	waits.Receive(t, patience, "the source gets in sync", synced)
	return source
}

func TestSource_RealAPI_FollowsScope(t *testing.T) {
	c := newClient(t, server.Config(t))
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	set := reflector.NewSet(s, c, slog.New(slog.DiscardHandler))
	mine := address("blue", "node-1", "10.0.0.1")
	remote := address("blue", "node-2", "10.0.0.2")
	foreign := address("red", "node-2", "10.0.0.1")
	create(t, c, mine, remote, foreign)

	start(t, set, vpcs.Address.OnNode("node-1"))
	waitFor(t, s, mine)
	ofVPC := start(t, set, vpcs.Address.Of[descriptor.AllAddresses]("blue"))
	waitFor(t, s, mine, remote)

	later := address("blue", "node-1", "fd00::1")
	create(t, c, later, address("red", "node-2", "fd00::1"))
	waitFor(t, s, mine, remote, later)
	if err := c.Delete(t.Context(), mine, mine.UID); err != nil {
		t.Fatal(err)
	}
	waitFor(t, s, remote, later)
	ofVPC.Stop()
	waitFor(t, s, later)
}

func TestScopes_RealAPI_EachServed(t *testing.T) {
	c := newClient(t, server.Config(t))
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	set := reflector.NewSet(s, c, slog.New(slog.DiscardHandler))
	for _, kind := range kinds.All() {
		if kind.OnNode != nil {
			start(t, set, kind.OnNode("node-1"))
		}
		for _, of := range kind.Of {
			start(t, set, of("blue"))
		}
	}
	s.View(func(tx store.ReadTx) {
		if row := store.GetService(tx, "default", "kubernetes"); row == nil || len(row.ClusterIPs) == 0 {
			t.Errorf("row of the Service default/kubernetes is %+v, want one with a cluster IP", row)
		}
	})
}
