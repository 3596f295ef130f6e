// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
)

func networkOf(uid, cidr string) *ipam.NetworkRange {
	return &ipam.NetworkRange{
		NetworkRef: store.NetworkRef{Group: "danm.k8s.io", Kind: "DanmNet", Namespace: "a", Name: "internal", UID: uid},
		V4:         ipam.Range{Prefix: netip.MustParsePrefix(cidr)},
	}
}

func inNetwork(n *ipam.NetworkRange, uid string) ipam.Request {
	request := requestFor(uid)
	request.VPC, request.Network, request.Attachment, request.Families = "", n, "net1", ipam.Families{V4: true}
	return request
}

// reads counts the requests of a reader.
type reads struct {
	client.Reader
	n atomic.Int64
}

func (r *reads) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	r.n.Add(1)
	return r.Reader.Get(ctx, key, object, opts...)
}

// TestClaimInNetwork_ThousandAddresses_OneRequestEach has 20 creators at once. A conflict
// would cost a read, and another creation.
func TestClaimInNetwork_ThousandAddresses_OneRequestEach(t *testing.T) {
	const creators, each = 20, 50
	var pods []any
	for i := range creators * each {
		name := fmt.Sprintf("pod-%d", i)
		pods = append(pods, &store.Pod{Meta: store.Meta{UID: name}, Namespace: "a", Name: name})
	}
	a := newAPI(t)
	c := newClaimer(t, a, pods...)
	live := &reads{Reader: a}
	c.Live = live
	n := networkOf("u1", "10.240.0.0/16")
	var group sync.WaitGroup
	var mu sync.Mutex
	seen := map[netip.Addr]string{}
	for creator := range creators {
		group.Go(func() {
			for i := range each {
				pod := fmt.Sprintf("pod-%d", creator*each+i)
				rows, err := c.Claim(t.Context(), inNetwork(n, pod), nil)
				if err != nil || len(rows) != 1 {
					t.Errorf("%s: %v, %v", pod, ips(rows), err)
					return
				}
				mu.Lock()
				if other := seen[rows[0].IP]; other != "" {
					t.Errorf("%s and %s have %s", other, pod, rows[0].IP)
				}
				seen[rows[0].IP] = pod
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if names := a.names(t); len(names) != creators*each || a.created != creators*each || live.n.Load() != 0 {
		t.Errorf("%d objects, %d creations, %d reads; want %d, as many, and none", len(names), a.created, live.n.Load(), creators*each)
	}
	c.Store.View(func(tx store.ReadTx) {
		if v4, _ := store.CountAddressesByNetwork(tx, "u1.net"); v4 != creators*each {
			t.Errorf("the store counts %d", v4)
		}
	})
}

// Two operators, each with a store of its own, choose the same IP. The name of the object
// lets one of them have it.
func TestClaimInNetwork_TwoOperators_IPGivenOnce(t *testing.T) {
	a := newAPI(t)
	first, second := newClaimer(t, a), newClaimer(t, a)
	n := networkOf("u1", "10.240.0.0/16")
	one, err := first.Claim(t.Context(), inNetwork(n, "p0"), nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := second.Claim(t.Context(), inNetwork(n, "p1"), nil)
	if err != nil || one[0].IP == other[0].IP {
		t.Errorf("p0 has %v, p1 %v, error %v", ips(one), ips(other), err)
	}
	again := networkOf("u2", "10.240.0.0/16")
	anew, err := second.Claim(t.Context(), inNetwork(again, "p2"), nil)
	if err != nil || anew[0].IP != one[0].IP || anew[0].Name == one[0].Name {
		t.Errorf("the network that is made again gives %v, error %v; want it to begin anew", ips(anew), err)
	}
}

func TestClaim_VPCAndNetworkInterface_ClaimedTogether(t *testing.T) {
	a := newAPI(t)
	c := newClaimer(t, a)
	n := networkOf("u1", "10.0.0.0/29") // the range of the subnet
	all, err := c.ClaimAll(t.Context(), []Wanted{{Request: requestFor("p")}, {Request: inNetwork(n, "p")}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ips(all[0]), []string{"10.0.0.2", "fd00::2"}) || !slices.Equal(ips(all[1]), []string{"10.0.0.1"}) {
		t.Errorf("claimed %v and %v", ips(all[0]), ips(all[1]))
	}
	if names := a.names(t); !slices.Equal(names, []string{"u1.net.10.0.0.1", "v.10.0.0.2", "v.fd00--2"}) {
		t.Errorf("objects %v", names)
	}
	var object v1alpha1.Address
	if err := a.Get(t.Context(), client.ObjectKey{Name: "u1.net.10.0.0.1"}, &object); err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.NetworkReference{Group: "danm.k8s.io", Kind: "DanmNet", Namespace: "a", Name: "internal", UID: "u1"}
	if object.Spec.VPC != "" || object.Spec.Subnet != "" || object.Spec.Network == nil || *object.Spec.Network != want {
		t.Errorf("the object is %+v", object.Spec)
	}
	if err := c.ReleaseAll(t.Context(), all[0][0].Holder, "node-1"); err != nil || len(a.names(t)) > 0 {
		t.Errorf("after the release: error %v, objects %v", err, a.names(t))
	}
}

// An interface that moves to another network, or to a network from a VPC, gives its
// addresses up first.
func TestClaim_InterfaceMovesDomain_OldAddressesDropped(t *testing.T) {
	n, again := networkOf("u1", "10.0.0.0/29"), networkOf("u2", "10.0.0.0/29")
	inVPC := requestFor("p")
	inVPC.Attachment = "net1"
	for name, steps := range map[string][2]ipam.Request{
		"from a network to its successor": {inNetwork(n, "p"), inNetwork(again, "p")},
		"from a VPC to a network":         {inVPC, inNetwork(n, "p")},
		"from a network to a VPC":         {inNetwork(n, "p"), inVPC},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			c := newClaimer(t, a)
			var rows []*store.Address
			for _, request := range steps {
				var err error
				if rows, err = c.Claim(t.Context(), request, nil); err != nil {
					t.Fatal(err)
				}
			}
			if names := a.names(t); len(names) != len(rows) || rows[0].Domain() != steps[1].Domain() {
				t.Errorf("objects %v, rows %v", names, ips(rows))
			}
		})
	}
}

// The claims of an earlier attempt are recognised after a restart, and completed.
func TestClaimInNetwork_HalfSet_SecondOperatorCompletes(t *testing.T) {
	n := networkOf("u1", "10.0.0.0/29")
	n.V6 = ipam.Range{Prefix: netip.MustParsePrefix("fd00::/64"), EUI64: true}
	request := inNetwork(n, "p")
	request.Families.V6 = true
	died := errors.New("died")
	a := newAPI(t)
	a.before = func(name string) error {
		if name != "u1.net.10.0.0.1" {
			return died
		}
		return nil
	}
	if _, err := newClaimer(t, a).Claim(t.Context(), request, nil); !errors.Is(err, died) {
		t.Fatalf("got %v", err)
	}
	a.before = nil
	second := newClaimer(t, a)
	a.reads(t, second)
	rows, err := second.Claim(t.Context(), request, nil)
	if err != nil || len(rows) != 2 || len(a.names(t)) != 2 || rows[1].MAC != rows[0].MAC {
		t.Errorf("finished as %v with objects %v: %v", ips(rows), a.names(t), err)
	}
}

func TestClaimInNetwork_Exhausted_NamedAndNothingClaimed(t *testing.T) {
	a := newAPI(t)
	holder := operatortest.Pod("blue", "a", "q", "", "")
	c := newClaimer(t, a, holder)
	n := networkOf("u1", "10.0.0.0/30")
	for _, pod := range []string{"p0", "p1"} {
		if _, err := c.Claim(t.Context(), inNetwork(n, pod), nil); err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.ClaimAll(t.Context(), []Wanted{{Request: requestFor("p")}, {Request: inNetwork(n, "p")}})
	var refusal *ipam.Error
	if !errors.As(err, &refusal) || refusal.Reason != v1alpha1.NetworkExhaustedReason || len(heldByPod(c)) > 0 || a.created != 2 {
		t.Errorf("got %v, holds %v after %d writes", err, heldByPod(c), a.created)
	}
}
