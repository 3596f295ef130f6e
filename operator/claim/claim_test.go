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
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
)

// api is a fake API server that counts creations and fails on request.
type api struct {
	client.WithWatch
	mu      sync.Mutex
	created int
	// before and after are called around each creation; an error takes the
	// place of the answer.
	before, after func(name string) error
}

func newAPI(t *testing.T, objects ...client.Object) *api {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	a := &api{}
	times := map[string]int{} // an object of a name was created
	a.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.created++
			times[object.GetName()]++
			if a.before != nil {
				if err := a.before(object.GetName()); err != nil {
					return err
				}
			}
			object.SetUID(types.UID(fmt.Sprintf("made-%d-%s", times[object.GetName()], object.GetName())))
			if err := c.Create(ctx, object, opts...); err != nil {
				return err
			}
			if a.after != nil {
				return a.after(object.GetName())
			}
			return nil
		},
	}).Build()
	return a
}

func newClaimer(t *testing.T, a *api, rows ...any) *Claimer {
	t.Helper()
	rows = append(rows,
		operatortest.VPC("v", 1, nil, "10.0.0.0/16", "fd00::/48"),
		operatortest.Subnet("s", "v", "s", 0, "10.0.0.0/29", "fd00::/64"))
	for _, uid := range []string{"p", "p0", "p1", "p2", "p3", "p4", "late"} {
		rows = append(rows, &store.Pod{Meta: store.Meta{UID: uid}, Namespace: "a", Name: uid})
	}
	return &Claimer{
		Client: a, Live: a, Store: operatortest.New(t, rows...), Resting: &ipam.Resting{},
		Term: operatortest.Term(true), Feed: feed.New(nil, logr.Discard()),
		Clock: clocktesting.NewFakePassiveClock(time.Unix(2_000_000, 0)),
	}
}

func requestFor(uid string, ips ...string) ipam.Request {
	return ipam.Request{
		VPC: "v", Node: "node-1", Attachment: "eth0", IPs: operatortest.Addrs(ips...),
		Holder: store.Holder{Kind: store.HolderPod, Namespace: "a", Name: uid, UID: uid},
	}
}

func (a *api) names(t *testing.T) []string {
	t.Helper()
	var list v1alpha1.AddressList
	if err := a.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	slices.Sort(names)
	return names
}

func TestClaim_TwoFamilies_OneWriteEach(t *testing.T) {
	a := newAPI(t)
	c := newClaimer(t, a)
	rows, err := c.Claim(t.Context(), requestFor("p", "10.0.0.4"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := ips(rows), []string{"10.0.0.4", "fd00::2"}; !slices.Equal(got, want) || a.created != 2 {
		t.Errorf("claimed %v with %d writes, want %v with 2", got, a.created, want)
	}
	if _, err := c.Claim(t.Context(), requestFor("p"), nil); err != nil || a.created != 2 {
		t.Errorf("claiming again: error %v, %d writes; want none more", err, a.created)
	}
}

func TestClaim_ManyAtOnce_DistinctAddresses(t *testing.T) {
	a := newAPI(t)
	c := newClaimer(t, a)
	var group sync.WaitGroup
	for i := range 5 { // a /29 without network, gateway and broadcast
		group.Go(func() {
			if _, err := c.Claim(t.Context(), requestFor(fmt.Sprintf("p%d", i)), nil); err != nil {
				t.Errorf("claim %d: %v", i, err)
			}
		})
	}
	group.Wait()
	if names := a.names(t); len(names) != 10 || a.created != 10 {
		t.Errorf("%d objects with %d writes, want 10 with 10", len(names), a.created)
	}
	_, err := c.Claim(t.Context(), requestFor("late"), nil)
	var refusal *ipam.Error
	if !errors.As(err, &refusal) || refusal.Reason != v1alpha1.SubnetExhaustedReason {
		t.Errorf("one too many: %v, want it refused", err)
	}
}

// strangers returns an address that the store does not know yet.
func strangers(ip string) *v1alpha1.Address {
	row := operatortest.Address("v", "s", ip, operatortest.Pod("red", "b", "stranger", "", ""))
	object, _ := addresses.object(row)
	object.UID = "stranger's"
	return object
}

func TestClaim_AddressTakenMeanwhile_AnotherChosen(t *testing.T) {
	a := newAPI(t, strangers("fd00::2"))
	c := newClaimer(t, a)
	rows, err := c.Claim(t.Context(), requestFor("p"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || rows[1].IP.String() == "fd00::2" {
		t.Errorf("claimed %v, want an IPv6 other than fd00::2", ips(rows))
	}
	// The IPv4 of the first choice named the IPv6 that was not to be had.
	if names := a.names(t); len(names) != 3 {
		t.Errorf("objects %v, want the stranger's and a set of two", names)
	}
	c.Store.View(func(tx store.ReadTx) {
		if held := store.AddressByIP(tx, "v", netip.MustParseAddr("fd00::2")); held == nil || held.Holder.Name != "stranger" {
			t.Errorf("the store has %+v for fd00::2, want the stranger's", held)
		}
		for _, row := range store.ListAddresses(tx) {
			if row.UID == "" {
				t.Errorf("%s is still assumed", row.Name)
			}
		}
	})
}

func TestClaim_RequestedIPHeld_Refused(t *testing.T) {
	a := newAPI(t, strangers("10.0.0.4"))
	c := newClaimer(t, a)
	_, err := c.Claim(t.Context(), requestFor("p", "10.0.0.4"), nil)
	var refusal *ipam.Error
	if !errors.As(err, &refusal) || refusal.Holder == nil || refusal.Holder.Name != "stranger" {
		t.Errorf("got %v, want a refusal that names the stranger", err)
	}
	if names := a.names(t); len(names) != 1 {
		t.Errorf("objects %v, want the stranger's alone", names)
	}
}

// TestClaim_PodGone_NothingChosen: the pod's end has been handled before, so the
// assumed address would never be released.
func TestClaim_PodGone_NothingChosen(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(tx store.Tx) error
	}{
		{"deleted", func(tx store.Tx) error { store.DeletePod(tx, "p"); return nil }},
		{"being deleted", func(tx store.Tx) error {
			return store.PutPod(tx, &store.Pod{Meta: store.Meta{UID: "p", Deleting: true}, Namespace: "a", Name: "p"})
		}},
		{"finished", func(tx store.Tx) error {
			return store.PutPod(tx, &store.Pod{Meta: store.Meta{UID: "p"}, Namespace: "a", Name: "p", Terminal: true})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAPI(t, strangers("10.0.0.2"))
			c := newClaimer(t, a)
			a.before = func(string) error { // the stranger was faster, and the pod ends before the next choice
				a.before = once(errors.New("etcd is unwell"))
				return c.Store.Update(tc.end)
			}
			if _, err := c.Claim(t.Context(), requestFor("p"), nil); !errors.Is(err, ErrHolderGone) {
				t.Errorf("got %v, want %v", err, ErrHolderGone)
			}
			c.Store.View(func(tx store.ReadTx) {
				for _, row := range store.AddressesNaming(tx, "p") {
					if row.IP.Is4() && row.IP.String() != "10.0.0.2" {
						t.Errorf("%s is assumed for a pod that has gone", row.Name)
					}
				}
			})
		})
	}
}

func TestClaim_ReplyLost_OneSet(t *testing.T) {
	lost := errors.New("the connection broke")
	for _, tc := range []struct {
		name   string
		breaks func(a *api)
	}{
		{"the object was created", func(a *api) { a.after = once(lost) }},
		{"the object was not created", func(a *api) { a.before = once(lost) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAPI(t)
			c := newClaimer(t, a)
			tc.breaks(a)
			if _, err := c.Claim(t.Context(), requestFor("p"), nil); !errors.Is(err, lost) {
				t.Fatalf("got %v, want the error of the connection", err)
			}
			rows, err := c.Claim(t.Context(), requestFor("p"), nil)
			if err != nil || len(rows) != 2 {
				t.Fatalf("trying again: %v, %v", ips(rows), err)
			}
			if names := a.names(t); len(names) != 2 {
				t.Errorf("objects %v, want two", names)
			}
		})
	}
}

func once(err error) func(string) error {
	return func(string) error {
		answer := err
		err = nil
		return answer
	}
}

// A user deletes an object before its creation is answered. Its pod, which has the address in its
// status, keeps the row: the deleted object does not stand behind it.
func TestClaim_ObjectDeletedBeforeAnswer_RowNotConfirmed(t *testing.T) {
	a := newAPI(t)
	c := newClaimer(t, a)
	a.after = func(name string) error {
		return c.Store.Update(func(tx store.Tx) error {
			made := *store.GetAddress(tx, name)
			made.UID = "made-1-" + name
			if err := store.PutAddress(tx, &made); err != nil {
				return err
			}
			store.DeleteAddress(tx, name, made.UID)
			return store.AssumeAddress(tx, &made)
		})
	}
	request := requestFor("p", "10.0.0.4")
	request.Families = ipam.Families{V4: true}
	if _, err := c.Claim(t.Context(), request, nil); err != nil {
		t.Fatal(err)
	}
	c.Store.View(func(tx store.ReadTx) {
		if row := store.GetAddress(tx, "v.10.0.0.4"); row == nil || row.UID != "" {
			t.Errorf("the row is %+v, want one that is assumed", row)
		}
	})
}

func TestClaim_HalfSetOfEarlierOperator_Finished(t *testing.T) {
	a := newAPI(t)
	first := newClaimer(t, a)
	died := errors.New("died")
	a.before = func(name string) error {
		if name == "v.fd00--2" {
			return died
		}
		return nil
	}
	if _, err := first.Claim(t.Context(), requestFor("p"), nil); !errors.Is(err, died) {
		t.Fatalf("got %v", err)
	}
	a.before = nil
	var half v1alpha1.Address
	if err := a.Get(t.Context(), client.ObjectKey{Name: "v.10.0.0.2"}, &half); err != nil {
		t.Fatal(err)
	}
	row := operatortest.Address("v", "s", "10.0.0.2", &store.Pod{Meta: store.Meta{UID: "p"}, Namespace: "a", Name: "p"}, "fd00::2")
	row.UID, row.MAC = string(half.UID), half.Spec.MAC
	second := newClaimer(t, a, row)
	rows, err := second.Claim(t.Context(), requestFor("p"), nil)
	if err != nil || !slices.Equal(ips(rows), []string{"10.0.0.2", "fd00::2"}) || rows[1].MAC != half.Spec.MAC {
		t.Errorf("finished as %v, %v", ips(rows), err)
	}
}
