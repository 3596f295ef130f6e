// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/netif"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/outside"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

var attached = &store.Pod{Meta: store.Meta{UID: "p"}, Namespace: "a", Name: "p", Node: "node-1"}

// attachmentTo returns an interface of the pod, whose configuration has a hash of one digit.
func attachmentTo(iface, hash string) AttachmentRow {
	return AttachmentRow{
		Config:    netif.Interface{Name: iface, Kind: "macvlan", Outside: "DanmNet/a/internal", OutsideUID: "u1"},
		Interface: iface, Driver: "macvlan", ConfigHash: strings.Repeat(hash, 64), Addresses: []string{"10.0.0.1/24"},
		Network: store.NetworkRef{Group: "danm.k8s.io", Kind: "DanmNet", Namespace: "a", Name: "internal", UID: "u1"},
	}
}

// claimed lists the claims of the API as name, first digit of the hash and UID.
func (a *api) claimed(t *testing.T) []string {
	t.Helper()
	var list v1alpha1.AttachmentClaimList
	if err := a.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, item := range list.Items {
		all = append(all, fmt.Sprintf("%s %c %s", item.Name, item.Spec.ConfigHash[0], item.UID))
	}
	slices.Sort(all)
	return all
}

// readsClaims puts the claims of the API into a store.
func (a *api) readsClaims(t *testing.T, c *Claimer) {
	t.Helper()
	var list v1alpha1.AttachmentClaimList
	if err := a.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	err := c.Store.Update(func(tx store.Tx) error {
		for _, row := range multinet.ClaimsNaming(tx, "p") {
			multinet.DeleteClaim(tx, row.Namespace, row.Name, row.UID)
		}
		for i := range list.Items {
			row, err := outside.AttachmentClaim.Convert(&list.Items[i])
			if err != nil {
				return err
			}
			if err := multinet.PutClaim(tx, row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestClaimAttachments_Attachments_ClaimsFollow(t *testing.T) {
	moved := attachmentTo("net1", "a")
	moved.Network.UID, moved.Config.OutsideUID = "u2", "u2"
	for name, tc := range map[string]struct {
		had, want []AttachmentRow
		// claims that exist afterwards, and the creations for them.
		claims  []string
		created int
	}{
		"new ones": {
			want:   []AttachmentRow{attachmentTo("net1", "a"), attachmentTo("Net_2", "b")},
			claims: []string{"p.0.4e65745f32 b made-1-p.0.4e65745f32", "p.net1 a made-1-p.net1"}, created: 2,
		},
		"no change": {
			had: []AttachmentRow{attachmentTo("net1", "a")}, want: []AttachmentRow{attachmentTo("net1", "a")},
			claims: []string{"p.net1 a made-1-p.net1"},
		},
		"another configuration": {
			had: []AttachmentRow{attachmentTo("net1", "a"), attachmentTo("net2", "a")}, want: []AttachmentRow{attachmentTo("net1", "b"), attachmentTo("net2", "a")},
			claims: []string{"p.net1 b made-2-p.net1", "p.net2 a made-1-p.net2"}, created: 1,
		},
		"the network was made again": {
			had: []AttachmentRow{attachmentTo("net1", "a")}, want: []AttachmentRow{moved},
			claims: []string{"p.net1 a made-2-p.net1"}, created: 1,
		},
		"an interface less": {
			had: []AttachmentRow{attachmentTo("net1", "a"), attachmentTo("net2", "a")}, want: []AttachmentRow{attachmentTo("net2", "a")},
			claims: []string{"p.net2 a made-1-p.net2"},
		},
		"none left": {had: []AttachmentRow{attachmentTo("net1", "a")}},
	} {
		// The store has the claims of before, or the watch is late.
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, late %v", name, late), func(t *testing.T) {
				a := newAPI(t)
				c := newClaimer(t, a)
				if err := c.ClaimAttachments(t.Context(), attached, tc.had); err != nil {
					t.Fatal(err)
				}
				if !late || len(tc.want) < len(tc.had) { // a claim too many must be known
					a.readsClaims(t, c)
				}
				before := a.created
				a.claimAttachments(t, c, tc.want)
				if got := a.claimed(t); len(got) != len(tc.claims) || !late && !slices.Equal(got, tc.claims) {
					t.Errorf("claims %v, want %v", got, tc.claims)
				}
				if got := a.created - before; !late && got != tc.created {
					t.Errorf("%d creations, want %d", got, tc.created)
				}
				a.readsClaims(t, c)
				before = a.created
				if err := c.ClaimAttachments(t.Context(), attached, tc.want); err != nil || a.created != before {
					t.Errorf("once more: error %v, %d creations", err, a.created-before)
				}
			})
		}
	}
}

func TestAttachmentClaim_Made_OwnedByPod(t *testing.T) {
	a := newAPI(t)
	if err := newClaimer(t, a).ClaimAttachments(t.Context(), attached, []AttachmentRow{attachmentTo("net1", "a")}); err != nil {
		t.Fatal(err)
	}
	var claim v1alpha1.AttachmentClaim
	if err := a.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "p.net1"}, &claim); err != nil {
		t.Fatal(err)
	}
	owners := claim.OwnerReferences
	if len(owners) != 1 || owners[0].Kind != "Pod" || owners[0].Name != "p" || owners[0].UID != "p" || owners[0].Controller != nil ||
		owners[0].BlockOwnerDeletion != nil {
		t.Errorf("owners %+v", owners)
	}
}

// TestClaimAttachments_ClaimOfRelease01_GetsItsConfiguration: the claim itself stays, and a second
// call changes nothing.
func TestClaimAttachments_ClaimOfRelease01_GetsItsConfiguration(t *testing.T) {
	rows := []AttachmentRow{attachmentTo("net1", "a")}
	old, err := attachmentObject(claimsOf(attached, rows)[0])
	if err != nil {
		t.Fatal(err)
	}
	old.UID, old.Spec.Config = "old", nil
	a := newAPI(t, old)
	c := newClaimer(t, a)
	a.readsClaims(t, c)
	claimed := func() (is bool) {
		c.Store.View(func(tx store.ReadTx) { is = AttachmentsClaimed(tx, attached, rows) })
		return is
	}
	if claimed() {
		t.Error("a claim without a configuration is complete")
	}
	for range 2 {
		if err := c.ClaimAttachments(t.Context(), attached, rows); err != nil {
			t.Fatal(err)
		}
		a.readsClaims(t, c)
	}
	if got := a.claimed(t); !slices.Equal(got, []string{"p.net1 a old"}) || a.created != 0 {
		t.Errorf("claims %v, %d created", got, a.created)
	}
	c.Store.View(func(tx store.ReadTx) {
		row := multinet.GetClaim(tx, "a", "p.net1")
		if diff := cmp.Diff(&rows[0].Config, row.Config); diff != "" {
			t.Errorf("the configuration (-want +got):\n%s", diff)
		}
	})
	if !claimed() {
		t.Error("the claim is not complete")
	}
}

// A forged claim, of another node or pod, has the UID of this pod in it. It is removed,
// and does not count.
func TestAttachmentClaim_Forged_Replaced(t *testing.T) {
	row := claimsOf(attached, []AttachmentRow{attachmentTo("net1", "a")})[0]
	row.Node = "node-2"
	forged, _ := attachmentObject(row)
	forged.UID = "forged"
	stray, _ := attachmentObject(claimsOf(attached, []AttachmentRow{attachmentTo("net7", "a")})[0])
	stray.UID = "stray"
	a := newAPI(t, forged, stray)
	c := newClaimer(t, a)
	a.readsClaims(t, c)
	c.Store.View(func(tx store.ReadTx) {
		if all := multinet.ClaimsByPod(tx, attached); len(all) != 1 || all[0].Interface != "net7" {
			t.Errorf("%d claims count for the pod before", len(all))
		}
	})
	if err := c.ClaimAttachments(t.Context(), attached, []AttachmentRow{attachmentTo("net1", "a")}); err != nil {
		t.Fatal(err)
	}
	// The stray claim has the pod's node, which may have made the interface.
	if got := a.claimed(t); !slices.Equal(got, []string{"p.net1 a made-1-p.net1", "p.net7 a stray"}) {
		t.Errorf("claims %v", got)
	}
	a.nodeReports(t, c)
	if got := a.claimed(t); !slices.Equal(got, []string{"p.net1 a made-1-p.net1"}) {
		t.Errorf("claims %v after the node's report", got)
	}
}

// claimAttachments claims until the node has reported the end of all former interfaces.
func (a *api) claimAttachments(t *testing.T, c *Claimer, rows []AttachmentRow) {
	t.Helper()
	err := c.ClaimAttachments(t.Context(), attached, rows)
	a.nodeReports(t, c)
	if errors.Is(err, ErrUnreleased) {
		a.readsClaims(t, c)
		err = c.ClaimAttachments(t.Context(), attached, rows)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// nodeReports removes the finalizers of the claims that are being deleted, as the controller of
// claims does once the node has reported that the interfaces are gone.
func (a *api) nodeReports(t *testing.T, c *Claimer) {
	t.Helper()
	var list v1alpha1.AttachmentClaimList
	if err := a.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			continue
		}
		row, err := outside.AttachmentClaim.Convert(&list.Items[i])
		if err == nil {
			err = c.ReleaseAttachment(t.Context(), row)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAttachmentClaim_ReplyLost_Adopted(t *testing.T) {
	a := newAPI(t)
	c := newClaimer(t, a)
	lost := errors.New("the connection broke")
	a.after = once(lost)
	rows := []AttachmentRow{attachmentTo("net1", "a")}
	if err := c.ClaimAttachments(t.Context(), attached, rows); !errors.Is(err, lost) {
		t.Fatalf("got %v", err)
	}
	if err := c.ClaimAttachments(t.Context(), attached, rows); err != nil {
		t.Fatal(err)
	}
	if got := a.claimed(t); !slices.Equal(got, []string{"p.net1 a made-1-p.net1"}) {
		t.Errorf("claims %v", got)
	}
}

func TestAttachmentClaim_PodGone_NotMade(t *testing.T) {
	a := newAPI(t)
	c := newClaimer(t, a)
	gone := *attached
	gone.UID = "gone"
	err := c.ClaimAttachments(t.Context(), &gone, []AttachmentRow{attachmentTo("net1", "a")})
	if !errors.Is(err, ErrHolderGone) || a.created > 0 {
		t.Errorf("got %v after %d creations", err, a.created)
	}
}
