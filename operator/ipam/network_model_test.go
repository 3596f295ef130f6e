// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/test/soak"
)

// wire is a naive allocator for two networks of one segment and a third one: it looks at
// every address.
type wire struct {
	t       *testing.T
	random  *rand.Rand
	store   *store.Store
	nets    []*ipam.NetworkRange
	held    map[string]map[netip.Addr]bool
	rested  map[string]map[netip.Addr]time.Time
	cursor  map[string]netip.Addr
	resting *ipam.Resting
	now     time.Time
	pods    int
}

func newWire(t *testing.T, seed uint64) *wire {
	a := routed(pooled(danmNet("a", "10.0.0.0/28", ""), "10.0.0.4", "10.0.0.11"), "10.0.0.6")
	b := ofCluster(pooled(danmNet("b", "10.0.0.0/28", ""), "10.0.0.9", "10.0.0.15"))
	c := danmNet("c", "10.0.0.0/29", "")
	a.Peers, b.Peers = []string{b.Domain()}, []string{a.Domain()}
	w := &wire{
		t: t, random: rand.New(rand.NewPCG(seed, seed)), store: newStore(t), nets: []*ipam.NetworkRange{a, b, c}, resting: &ipam.Resting{}, now: epoch,
		held: map[string]map[netip.Addr]bool{}, rested: map[string]map[netip.Addr]time.Time{}, cursor: map[string]netip.Addr{},
	}
	for _, n := range w.nets {
		w.held[n.Domain()], w.rested[n.Domain()] = map[netip.Addr]bool{}, map[netip.Addr]time.Time{}
	}
	return w
}

// all lists the addresses of a network's range from the last chosen one on.
func (w *wire) all(n *ipam.NetworkRange) []netip.Addr {
	var before, behind []netip.Addr
	cursor := w.cursor[n.Domain()]
	for ip := n.V4.Prefix.Addr(); n.V4.Prefix.Contains(ip); ip = ip.Next() {
		if cursor.IsValid() && cursor.Less(ip) {
			behind = append(behind, ip)
		} else {
			before = append(before, ip)
		}
	}
	return append(behind, before...)
}

// inPool reports whether an IP may be chosen for a pod.
func inPool(n *ipam.NetworkRange, ip netip.Addr) bool {
	return !n.V4.Pool.First.IsValid() || !ip.Less(n.V4.Pool.First) && !n.V4.Pool.Last.Less(ip)
}

// mayGive reports whether a network can assign an IP at all.
func (w *wire) mayGive(n *ipam.NetworkRange, ip netip.Addr) bool {
	last := n.V4.Prefix.Addr().As4()
	last[3] += 1<<(32-n.V4.Prefix.Bits()) - 1
	if ip == n.V4.Prefix.Addr() || ip == netip.AddrFrom4(last) || len(n.Reserved) > 0 && ip == n.Reserved[0] || w.held[n.Domain()][ip] {
		return false
	}
	for _, peer := range n.Peers {
		if w.held[peer][ip] {
			return false
		}
	}
	return true
}

// expect returns the address that must be assigned, not valid for a refusal.
func (w *wire) expect(n *ipam.NetworkRange, asked netip.Addr) netip.Addr {
	if asked.IsValid() {
		if n.V4.Prefix.Contains(asked) && w.mayGive(n, asked) && (n.Kind != "ClusterNetwork" || inPool(n, asked)) {
			return asked
		}
		return netip.Addr{}
	}
	var resting netip.Addr
	for _, ip := range w.all(n) {
		if !inPool(n, ip) || !w.mayGive(n, ip) {
			continue
		}
		if !w.rests(n, ip) {
			return ip
		}
		resting = first(resting, ip)
	}
	return resting
}

// rests reports whether an IP was released less than a minute ago in any network of the
// segment.
func (w *wire) rests(n *ipam.NetworkRange, ip netip.Addr) bool {
	for _, domain := range append([]string{n.Domain()}, n.Peers...) {
		if at, ok := w.rested[domain][ip]; ok && w.now.Sub(at) < time.Minute {
			return true
		}
	}
	return false
}

func (w *wire) claim(n *ipam.NetworkRange, asked netip.Addr) {
	want := w.expect(n, asked)
	w.pods++
	req := ask(n, "dynamic", "")
	if asked.IsValid() {
		req = ask(n, asked.String(), "")
	}
	uid := fmt.Sprintf("pod-%d", w.pods)
	req.Holder.Name, req.Holder.UID, req.Resting, req.Now = uid, uid, w.resting, w.now
	var result ipam.Result
	err := w.store.Update(func(tx store.Tx) (err error) {
		if result, err = ipam.Choose(tx, req); err != nil {
			return err
		}
		return ipam.Assume(tx, result)
	})
	var refusal *ipam.Error
	if err != nil && !errors.As(err, &refusal) || want.IsValid() != (err == nil) || err == nil && result.IPs[0] != want {
		w.t.Fatalf("%s, request %v: got %v (%v), want %v", n, asked, result.IPs, err, want)
	}
	if want.IsValid() {
		w.held[n.Domain()][want] = true
		if !asked.IsValid() {
			w.cursor[n.Domain()] = want
		}
	}
}

func (w *wire) release(n *ipam.NetworkRange, ip netip.Addr) {
	if !w.held[n.Domain()][ip] {
		return
	}
	update(w.t, w.store, func(tx store.Tx) error {
		if !store.DeleteAddress(tx, v1alpha1.AddressName(n.Domain(), ip), "") {
			return fmt.Errorf("address %s of %s isn't in the store", ip, n)
		}
		return nil
	})
	w.resting.Add(n.Domain(), ip, w.now)
	delete(w.held[n.Domain()], ip)
	w.rested[n.Domain()][ip] = w.now
}

// check compares the figures of the networks.
func (w *wire) check() {
	w.store.View(func(tx store.ReadTx) {
		for _, n := range w.nets {
			var free int64
			for _, ip := range w.all(n) {
				if inPool(n, ip) && w.mayGive(n, ip) {
					free++
				}
			}
			used, _ := store.CountAddressesByNetwork(tx, n.Domain())
			if got, _ := ipam.CountNetwork(tx, n, ipfamily.IPv4); got != free || used != int64(len(w.held[n.Domain()])) {
				w.t.Fatalf("%s has %d free and %d used, want %d and %d", n, got, used, free, len(w.held[n.Domain()]))
			}
		}
	})
}

func TestChooseInNetwork_RandomRequests_EqualNaiveModel(t *testing.T) {
	for seed := range soak.Or(t, uint64(1000), 20) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			w := newWire(t, seed)
			for range 400 {
				n := w.nets[w.random.IntN(len(w.nets))]
				ip := netip.AddrFrom4([4]byte{10, 0, 0, byte(w.random.IntN(18))})
				w.now = w.now.Add(time.Duration(w.random.IntN(20)) * time.Second)
				switch w.random.IntN(8) {
				case 0, 1, 2:
					w.claim(n, netip.Addr{})
				case 3:
					w.claim(n, ip)
				default:
					w.release(n, ip)
				}
				w.check()
			}
		})
	}
}
