// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
)

// twoVPCs returns the wishes of a pod with an interface in VPC v, and one in VPC w. The pod names
// ips for the second interface, if any.
func twoVPCs(ips ...string) []Wanted {
	first, second := requestFor("p"), requestFor("p", ips...)
	second.VPC, second.Attachment = "w", "net1"
	return []Wanted{{Request: first}, {Request: second}}
}

// secondVPC has addresses for five pods, 10.1.0.2 to 10.1.0.6.
func secondVPC() []any {
	return []any{operatortest.VPC("w", 2, nil, "10.1.0.0/16"), operatortest.Subnet("s2", "w", "s2", 0, "10.1.0.0/29")}
}

// heldByPod returns the names of the rows of the pod p by interface.
func heldByPod(c *Claimer) map[string][]string {
	held := map[string][]string{}
	c.Store.View(func(tx store.ReadTx) {
		for _, row := range store.AddressesNaming(tx, "p") {
			held[row.Attachment] = append(held[row.Attachment], row.Name)
		}
	})
	for _, names := range held {
		slices.Sort(names)
	}
	return held
}

func TestClaim_AttachmentsInTwoVPCs_ClaimedTogether(t *testing.T) {
	a := newAPI(t)
	c := newClaimer(t, a, secondVPC()...)
	all, err := c.ClaimAll(t.Context(), twoVPCs())
	if err != nil || len(all) != 2 {
		t.Fatalf("claimed %d attachments, error %v; want 2", len(all), err)
	}
	if got := [][]string{ips(all[0]), ips(all[1])}; !slices.Equal(got[0], []string{"10.0.0.2", "fd00::2"}) || !slices.Equal(got[1], []string{"10.1.0.2"}) {
		t.Errorf("claimed %v", got)
	}
	if all[0][0].Attachment != "eth0" || all[1][0].Attachment != "net1" || all[1][0].VPC != "w" {
		t.Errorf("the rows are of %s and %s of VPC %s", all[0][0].Attachment, all[1][0].Attachment, all[1][0].VPC)
	}
}

func TestClaim_AttachmentsInOneVPC_DifferentAddresses(t *testing.T) {
	a := newAPI(t)
	c := newClaimer(t, a)
	wanted := twoVPCs()
	wanted[1].VPC = "v"
	all, err := c.ClaimAll(t.Context(), wanted)
	if err != nil || slices.Equal(ips(all[0]), ips(all[1])) || len(a.names(t)) != 4 {
		t.Errorf("claimed %v, error %v, objects %v", all, err, a.names(t))
	}
}

func TestClaim_OneAttachmentRefused_NoneClaimed(t *testing.T) {
	a := newAPI(t)
	holder := operatortest.Pod("blue", "a", "q", "", "")
	c := newClaimer(t, a, append(secondVPC(), holder, operatortest.Address("w", "s2", "10.1.0.3", holder))...)
	_, err := c.ClaimAll(t.Context(), twoVPCs("10.1.0.3"))
	var refusal *ipam.Error
	if !errors.As(err, &refusal) || refusal.Reason != v1alpha1.IPInUseReason || !strings.HasPrefix(refusal.Message, "interface net1: 10.1.0.3 ") {
		t.Errorf("got %v, want a refusal that names the interface", err)
	}
	if held := heldByPod(c); len(held) > 0 || a.created > 0 {
		t.Errorf("holds %v after %d writes, want nothing after none", held, a.created)
	}
}

func TestClaim_TermUnsettled_NothingReserved(t *testing.T) {
	a := newAPI(t)
	c := newClaimer(t, a, secondVPC()...)
	c.Term = operatortest.Term(false)
	wanted := twoVPCs()
	wanted[0].IPs, wanted[0].Prefer = operatortest.Addrs("10.0.0.4", "fd00::4"), operatortest.Addrs("10.0.0.4", "fd00::4")
	if _, err := c.ClaimAll(t.Context(), wanted); !errors.Is(err, ErrUnsettled) || len(heldByPod(c)) > 0 {
		t.Errorf("error %v, holds %v; want %v and nothing", err, heldByPod(c), ErrUnsettled)
	}
}

func TestClaim_OneAttachmentAddressTaken_OnlyItChanges(t *testing.T) {
	taken := strangers("10.1.0.2")
	taken.Name, taken.Spec.VPC = "w.10.1.0.2", "w"
	a := newAPI(t, taken)
	c := newClaimer(t, a, secondVPC()...)
	all, err := c.ClaimAll(t.Context(), twoVPCs())
	if err != nil || !slices.Equal(ips(all[0]), []string{"10.0.0.2", "fd00::2"}) || !slices.Equal(ips(all[1]), []string{"10.1.0.3"}) {
		t.Errorf("claimed %v, error %v", all, err)
	}
	if a.created != 4 { // the first attachment's are not made twice
		t.Errorf("%d writes, want 4", a.created)
	}
}

// reads puts the objects of the API into a store, as an operator does that has just started.
func (a *api) reads(t *testing.T, c *Claimer) {
	t.Helper()
	var list v1alpha1.AddressList
	if err := a.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	objects, err := meta.ExtractList(&list)
	if err != nil {
		t.Fatal(err)
	}
	err = c.Store.Update(func(tx store.Tx) error {
		for _, object := range objects {
			row, err := vpcs.Address.Convert(object.(*v1alpha1.Address))
			if err != nil {
				return err
			}
			if err := store.PutAddress(tx, row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestClaim_SecondOperator_FindsClaimsPerInterface(t *testing.T) {
	died := errors.New("died")
	for _, tc := range []struct {
		name, diesAt string
		made         int
	}{
		{"before the second attachment", "w.10.1.0.2", 2},
		{"within the first attachment", "v.fd00--2", 2}, // the second is claimed at the same time
		{"after all", "", 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAPI(t)
			a.before = func(name string) error {
				if name == tc.diesAt {
					return died
				}
				return nil
			}
			first := newClaimer(t, a, secondVPC()...)
			if _, err := first.ClaimAll(t.Context(), twoVPCs()); (tc.diesAt != "") != errors.Is(err, died) || len(a.names(t)) != tc.made {
				t.Fatalf("the first operator: error %v, objects %v", err, a.names(t))
			}
			a.before = nil
			second := newClaimer(t, a, secondVPC()...)
			a.reads(t, second)
			// Addresses that are released meanwhile, or chosen first, do not change it.
			if err := second.Store.Update(func(tx store.Tx) error { return store.SetCursor(tx, "s2", netip.MustParseAddr("10.1.0.4")) }); err != nil {
				t.Fatal(err)
			}
			all, err := second.ClaimAll(t.Context(), twoVPCs())
			if err != nil || !slices.Equal(ips(all[0]), []string{"10.0.0.2", "fd00::2"}) || len(all[1]) != 1 {
				t.Fatalf("the second operator: %v, %v", all, err)
			}
			if names := a.names(t); len(names) != 3 {
				t.Errorf("objects %v, want 3", names)
			}
			if tc.diesAt == "" && !slices.Equal(ips(all[1]), []string{"10.1.0.2"}) {
				t.Errorf("net1 has %v, want what it had", ips(all[1]))
			}
		})
	}
}

// The addresses of one interface do not help another interface of the same pod.
func TestClaim_OtherInterface_ClaimsNotTaken(t *testing.T) {
	held := operatortest.Address("w", "s2", "10.1.0.5", &store.Pod{Meta: store.Meta{UID: "p"}, Namespace: "a", Name: "p"})
	object, _ := addresses.object(held)
	a := newAPI(t, object)
	c := newClaimer(t, a, append(secondVPC(), held)...)
	wanted := twoVPCs()
	wanted[0].VPC = "w" // eth0, which has 10.1.0.5
	all, err := c.ClaimAll(t.Context(), wanted)
	if err != nil || !slices.Equal(ips(all[0]), []string{"10.1.0.5"}) || slices.Equal(ips(all[1]), ips(all[0])) {
		t.Errorf("claimed %v, error %v", all, err)
	}
}

func TestReleaseAll_SeveralInterfaces_AllReleased(t *testing.T) {
	a := newAPI(t)
	c := newClaimer(t, a, secondVPC()...)
	wanted := twoVPCs()
	if _, err := c.ClaimAll(t.Context(), wanted); err != nil {
		t.Fatal(err)
	}
	if err := c.ReleaseAll(t.Context(), wanted[0].Holder, "node-1"); err != nil {
		t.Fatal(err)
	}
	if held := heldByPod(c); len(held) > 0 || len(a.names(t)) > 0 {
		t.Errorf("holds %v, objects %v; want nothing", held, a.names(t))
	}
}
