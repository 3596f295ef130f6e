// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// podTold returns a pod with addresses of VPC v in its status.
func podTold(t *testing.T, name string, addrs ...string) *store.Pod {
	t.Helper()
	pod := operatortest.Pod("blue", "a", name, "", "")
	text, err := annotations.FormatAttachments([]netif.Interface{{
		Name: "eth0", VPC: "v", Subnet: "s", Addresses: operatortest.Prefixes(addrs...),
	}})
	if err != nil {
		t.Fatal(err)
	}
	pod.Attachments, pod.NetworkReady, pod.Reason = text, true, v1alpha1.AttachedReason
	return pod
}

func TestSame_ToldAddresses_EqualInAnyOrder(t *testing.T) {
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

// remove removes the rows of addresses whose deletion the watch reports.
func remove(t *testing.T, s *store.Store, rows ...*store.Address) {
	t.Helper()
	if err := s.Update(func(tx store.Tx) error {
		for _, row := range rows {
			removed, err := Remove(tx, row.Name, row.UID)
			if again, _ := Remove(tx, row.Name, row.UID); !removed || again || err != nil {
				t.Errorf("removed %v, and then %v, error %v", removed, again, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestAddress_DeletedWhilePodLives_Kept: the status of the pod makes no difference.
func TestAddress_DeletedWhilePodLives_Kept(t *testing.T) {
	change := func(f func(*store.Pod)) *store.Pod {
		pod := podTold(t, "p", "10.0.0.9/24")
		f(pod)
		return pod
	}
	for name, tc := range map[string]struct {
		pod  *store.Pod
		want bool
	}{
		"told":                {podTold(t, "p", "10.0.0.9/24"), true},
		"told another one":    {podTold(t, "p", "10.0.0.8/24"), true},
		"not told yet":        {operatortest.Pod("blue", "a", "p", "", ""), true},
		"that leaves":         {change(func(p *store.Pod) { p.Deleting = true }), false},
		"that has ended":      {change(func(p *store.Pod) { p.Terminal = true }), false},
		"on another node now": {change(func(p *store.Pod) { p.Node = "node-2" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			row := operatortest.Address("v", "s", "10.0.0.9", podTold(t, "p", "10.0.0.9/24"))
			s := operatortest.New(t, tc.pod, row)
			remove(t, s, row)
			s.View(func(tx store.ReadTx) {
				held := store.GetAddress(tx, row.Name)
				if (held != nil) != tc.want || held != nil && (held.UID != "" || !held.Kept || !tc.pod.Holds(held)) {
					t.Errorf("the row is %+v", held)
				}
			})
		})
	}
}

// TestAddress_OnlyPodStatusSaysSo_NotKept: whoever may write the status of pods may say so.
func TestAddress_OnlyPodStatusSaysSo_NotKept(t *testing.T) {
	thief := podTold(t, "thief", "10.0.0.9/24")
	victim := operatortest.Pod("red", "b", "victim", "", "")
	victim.Deleting = true
	row := operatortest.Address("v", "s", "10.0.0.9", victim)
	s := operatortest.New(t, thief, victim, row)
	remove(t, s, row)
	s.View(func(tx store.ReadTx) {
		if rows := store.ListAddresses(tx); len(rows) > 0 {
			t.Errorf("kept is %+v", rows[0])
		}
	})
}

// TestKeptAddress_ObjectInItsPlace_ComesBack: a pod with another address by then does not get the first one back.
func TestKeptAddress_ObjectInItsPlace_ComesBack(t *testing.T) {
	victim := podTold(t, "victim", "10.0.0.9/24")
	thief := operatortest.Pod("red", "b", "thief", "", "")
	own := operatortest.Address("v", "s", "10.0.0.9", victim)
	intruder := operatortest.Address("v", "s", "10.0.0.9", thief)
	intruder.Node, intruder.UID = "node-2", "intruder"
	other := operatortest.Address("v", "s", "10.0.0.7", victim)
	for name, tc := range map[string]struct {
		meanwhile []*store.Address
		put       func(tx store.Tx, row *store.Address) error
		want      bool
	}{
		"heard of":                   {nil, Put, true},
		"found at a claim":           {nil, func(tx store.Tx, row *store.Address) error { return Confirm(tx, store.GetAddress(tx, row.Name), row) }, true},
		"the pod has another by now": {[]*store.Address{other}, Put, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := operatortest.New(t, victim, thief, own)
			remove(t, s, own)
			if err := s.Update(func(tx store.Tx) error {
				if err := tc.put(tx, intruder); err != nil {
					return err
				}
				for _, row := range tc.meanwhile {
					if err := Put(tx, row); err != nil {
						return err
					}
				}
				gone, err := Forget(tx, intruder.Name, intruder.UID)
				if !gone {
					t.Error("the intruder has no row")
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			s.View(func(tx store.ReadTx) {
				held := store.GetAddress(tx, own.Name)
				if (held != nil) != tc.want || held != nil && (!held.Kept || held.UID != "" || !victim.Holds(held)) {
					t.Errorf("the row is %+v", held)
				}
			})
		})
	}
}

// TestAddress_OperatorDeletes_NotKept: it has other addresses for the pod, or none.
func TestAddress_OperatorDeletes_NotKept(t *testing.T) {
	pod := podTold(t, "p", "10.0.0.9/24")
	row := operatortest.Address("v", "s", "10.0.0.9", pod)
	s := operatortest.New(t, pod, row)
	if err := s.Update(func(tx store.Tx) error { _, err := Forget(tx, row.Name, row.UID); return err }); err != nil {
		t.Fatal(err)
	}
	s.View(func(tx store.ReadTx) {
		if rows := store.ListAddresses(tx); len(rows) > 0 {
			t.Errorf("kept is %+v", rows[0])
		}
	})
}

func TestAttachment_Objects_ConfirmedByThemAlone(t *testing.T) {
	pod := podTold(t, "p", "10.0.0.9/24")
	inVPC := Status(pod)[0]
	outside := netif.Interface{Name: "net1", Outside: "DanmNet/a/lan", OutsideUID: "u1"}
	elsewhere := operatortest.Address("w", "s", "10.0.0.9", pod)
	second := operatortest.Address("v", "s", "10.0.0.9", pod)
	second.Attachment = "eth1"
	claim := func(change func(*multinet.Claim)) *multinet.Claim {
		row := &multinet.Claim{
			Meta: store.Meta{UID: "c"}, Namespace: "a", Name: "c", PodName: pod.Name, PodUID: pod.UID, Node: pod.Node,
			Interface: "net1", Network: store.NetworkRef{UID: "u1"},
		}
		change(row)
		return row
	}
	for name, tc := range map[string]struct {
		one   netif.Interface
		row   *store.Address
		claim *multinet.Claim
		want  bool
	}{
		"nothing":                    {one: inVPC},
		"its address":                {inVPC, operatortest.Address("v", "s", "10.0.0.9", pod), nil, true},
		"an address of another VPC":  {inVPC, elsewhere, nil, false},
		"of another interface":       {inVPC, second, nil, false},
		"outside, nothing":           {one: outside},
		"outside, its claim":         {outside, nil, claim(func(*multinet.Claim) {}), true},
		"outside, a claim elsewhere": {outside, nil, claim(func(c *multinet.Claim) { c.Network.UID = "u2" }), false},
		"outside, another interface": {outside, nil, claim(func(c *multinet.Claim) { c.Interface = "net2" }), false},
		"nowhere":                    {netif.Interface{Name: "eth0"}, operatortest.Address("v", "s", "10.0.0.9", pod), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := operatortest.New(t, pod)
			if err := s.Update(func(tx store.Tx) error {
				if tc.row != nil {
					return store.PutAddress(tx, tc.row)
				}
				if tc.claim != nil {
					return multinet.PutClaim(tx, tc.claim)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			s.View(func(tx store.ReadTx) {
				if got := Confirms(tx, pod, tc.one); got != tc.want {
					t.Errorf("confirmed: %v", got)
				}
			})
		})
	}
}
