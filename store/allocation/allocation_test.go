// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
)

// podTold is a pod with addresses of VPC v in its status.
func podTold(t *testing.T, name string, addrs ...string) *store.Pod {
	t.Helper()
	pod := operatortest.Pod("blue", "a", name, "", "")
	text, err := annotations.FormatAttachments([]annotations.Attachment{{
		Name: "eth0", VPC: "v", Subnet: "s", Addresses: operatortest.Prefixes(addrs...),
	}})
	if err != nil {
		t.Fatal(err)
	}
	pod.Attachments, pod.NetworkReady, pod.Reason = text, true, v1alpha1.AttachedReason
	return pod
}

func TestAPodWasToldItsAddressesInAnyOrderAndNoOthers(t *testing.T) {
	pod := podTold(t, "p", "10.0.0.9/24", "fd00::9/64")
	deleting, unready, pretending := *pod, *pod, *pod
	deleting.Deleting, unready.NetworkReady, pretending.Reason = true, false, ""
	for _, tc := range []struct {
		name string
		pod  *store.Pod
		vpc  string
		ips  []string
		want bool
	}{
		{"the same", pod, "v", []string{"fd00::9", "10.0.0.9"}, true},
		{"one of them", pod, "v", []string{"10.0.0.9"}, false},
		{"another", pod, "v", []string{"10.0.0.8", "fd00::9"}, false},
		{"of another VPC", pod, "w", []string{"10.0.0.9", "fd00::9"}, false},
		{"a pod that leaves", &deleting, "v", []string{"10.0.0.9", "fd00::9"}, false},
		{"not ready", &unready, "v", []string{"10.0.0.9", "fd00::9"}, false},
		{"said by whoever made the pod", &pretending, "v", []string{"10.0.0.9", "fd00::9"}, false},
	} {
		var ips []netip.Addr
		for _, text := range tc.ips {
			ips = append(ips, netip.MustParseAddr(text))
		}
		if got := Same(tc.pod, tc.vpc, ips); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestAnAddressGoesBackToThePodThatWasToldIt whichever pod had the name meanwhile.
func TestAnAddressGoesBackToThePodThatWasToldIt(t *testing.T) {
	victim := podTold(t, "victim", "10.0.0.9/24")
	thief := operatortest.Pod("red", "b", "thief", "", "")
	own := operatortest.Address("v", "s", "10.0.0.9", victim)
	intruder := operatortest.Address("v", "s", "10.0.0.9", thief)
	intruder.Node = "node-2"
	for name, row := range map[string]*store.Address{"its own": own, "one that did not count": intruder} {
		t.Run(name, func(t *testing.T) {
			s := operatortest.New(t, victim, thief, row)
			err := s.Update(func(tx store.Tx) error {
				removed, err := Remove(tx, row.Name, row.UID)
				if again, _ := Remove(tx, row.Name, row.UID); !removed || again {
					t.Errorf("removed %v, and then %v", removed, again)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			s.View(func(tx store.ReadTx) {
				held := store.GetAddress(tx, row.Name)
				if held == nil || held.UID != "" || !victim.Holds(held) {
					t.Errorf("the row is %+v, want the victim's, assumed", held)
				}
			})
		})
	}
}

// TestWhatAPodWasToldIsKeptForItUnlessItIsKnownToEnd reads an old state after a newer one.
func TestWhatAPodWasToldIsKeptForItUnlessItIsKnownToEnd(t *testing.T) {
	told := podTold(t, "p", "10.0.0.9/24")
	told.ResourceVersion = "5"
	ending := *told
	ending.Deleting, ending.ResourceVersion = true, "6"
	for name, rows := range map[string][]*store.Pod{"it lives": {told}, "it ends": {&ending, told}} {
		t.Run(name, func(t *testing.T) {
			s := operatortest.New(t)
			if err := s.Update(func(tx store.Tx) error {
				for _, row := range rows {
					if err := Put(tx, row); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			s.View(func(tx store.ReadTx) {
				row := store.GetAddress(tx, v1alpha1.AddressName("v", netip.MustParseAddr("10.0.0.9")))
				if kept := row != nil; kept != (len(rows) == 1) {
					t.Errorf("kept: %v", kept)
				}
			})
		})
	}
}

// TestAnAddressOfANetworkIsKeptForItsPod after its object is lost, by the UID of the
// network. An address without one was never claimed.
func TestAnAddressOfANetworkIsKeptForItsPod(t *testing.T) {
	addrs := operatortest.Prefixes("10.0.0.9/24")
	in := func(outside, uid string) annotations.Attachment {
		return annotations.Attachment{Name: "net1", Outside: outside, OutsideUID: uid, Addresses: addrs, MAC: "0a:00:00:00:00:01"}
	}
	inVPCToo := in("DanmNet/a/internal", "u1")
	inVPCToo.VPC, inVPCToo.Subnet = "v", "s"
	for name, tc := range map[string]struct {
		attachment annotations.Attachment
		want       store.NetworkRef
		row        string
	}{
		"in a namespace": {in("DanmNet/a/internal", "u1"), store.NetworkRef{Kind: "DanmNet", Namespace: "a", Name: "internal", UID: "u1"}, "u1.net.10.0.0.9"},
		"of the cluster": {in("ClusterNetwork/external", "u2"), store.NetworkRef{Kind: "ClusterNetwork", Name: "external", UID: "u2"}, "u2.net.10.0.0.9"},
		"and in a VPC":   {inVPCToo, store.NetworkRef{Kind: "DanmNet", Namespace: "a", Name: "internal", UID: "u1"}, "u1.net.10.0.0.9"},
		"not claimed":    {attachment: in("physical", "")},
		"no path":        {attachment: in("physical", "u1")},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podTold(t, "p", "10.0.0.1/24")
			text, err := annotations.FormatAttachments([]annotations.Attachment{tc.attachment})
			if err != nil {
				t.Fatal(err)
			}
			pod.Attachments = text
			s := operatortest.New(t)
			if err := s.Update(func(tx store.Tx) error { return Put(tx, pod) }); err != nil {
				t.Fatal(err)
			}
			s.View(func(tx store.ReadTx) {
				rows := store.ListAddresses(tx)
				if tc.row == "" {
					if len(rows) > 0 {
						t.Errorf("%s is kept", rows[0].Name)
					}
					return
				}
				if len(rows) != 1 || rows[0].Name != tc.row || rows[0].Network != tc.want || rows[0].VPC != "" || rows[0].Subnet != "" || rows[0].Attachment != "net1" {
					t.Fatalf("kept are %+v", rows)
				}
				ips := []netip.Addr{netip.MustParseAddr("10.0.0.9")}
				if !Same(pod, tc.want.Domain(), ips) || Same(pod, "v", ips) || Same(pod, "", ips) {
					t.Error("the addresses are not those of the network alone")
				}
			})
		})
	}
}
