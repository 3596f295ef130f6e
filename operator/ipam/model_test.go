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

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/test/soak"
)

// model is a naive allocator for one subnet: it looks at every address.
type model struct {
	prefixes []netip.Prefix
	blocked  map[netip.Addr]bool
	// held is the node by IP; other has the addresses that VPC red uses, by node and IP.
	held     map[netip.Addr]string
	other    map[string]map[netip.Addr]bool
	released map[netip.Addr]time.Time
	cursor   map[bool]netip.Addr
}

// next returns the address that must be chosen, not valid for none.
func (m *model) next(prefix netip.Prefix, node string, now time.Time) netip.Addr {
	var ring, before []netip.Addr
	cursor := m.cursor[prefix.Addr().Is4()]
	for ip := prefix.Addr(); prefix.Contains(ip); ip = ip.Next() {
		if cursor.IsValid() && !cursor.Less(ip) {
			before = append(before, ip)
		} else {
			ring = append(ring, ip)
		}
	}
	var shared, resting netip.Addr
	for _, ip := range append(ring, before...) {
		at, rested := m.released[ip]
		_, isHeld := m.held[ip]
		switch {
		case isHeld || m.blocked[ip]:
		case rested && now.Sub(at) < time.Minute:
			resting = first(resting, ip)
		case m.other[node][ip]:
			shared = first(shared, ip)
		default:
			return ip
		}
	}
	return first(shared, resting)
}

func first(a, b netip.Addr) netip.Addr {
	if a.IsValid() {
		return a
	}
	return b
}

// simulation runs random steps against store and model at once.
type simulation struct {
	*model
	t       *testing.T
	random  *rand.Rand
	store   *store.Store
	resting *ipam.Resting
	now     time.Time
	pods    int
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	row := subnet(1, "net1", "10.0.1.0/28", "fd00::/123")
	row.Reserved = []store.AddrRange{{First: netip.MustParseAddr("10.0.1.4"), Last: netip.MustParseAddr("10.0.1.5")}}
	sim := &simulation{
		model: &model{
			prefixes: row.Prefixes, blocked: map[netip.Addr]bool{}, held: map[netip.Addr]string{},
			other: map[string]map[netip.Addr]bool{}, released: map[netip.Addr]time.Time{}, cursor: map[bool]netip.Addr{},
		},
		t: t, random: rand.New(rand.NewPCG(seed, seed)), store: newStore(t, row), resting: &ipam.Resting{}, now: epoch,
	}
	for _, ip := range ips("10.0.1.0", "10.0.1.1", "10.0.1.4", "10.0.1.5", "10.0.1.15", "fd00::", "fd00::1") {
		sim.blocked[ip] = true
	}
	return sim
}

func (sim *simulation) node() string { return fmt.Sprintf("n%d", sim.random.IntN(3)) }

func (sim *simulation) anyIP(prefix netip.Prefix) netip.Addr {
	ip := prefix.Addr()
	for range sim.random.IntN(1 << (prefix.Addr().BitLen() - prefix.Bits())) {
		ip = ip.Next()
	}
	return ip
}

func (sim *simulation) step() {
	sim.now = sim.now.Add(time.Duration(sim.random.IntN(20)) * time.Second)
	switch sim.random.IntN(10) {
	case 0, 1, 2, 3:
		sim.claim(nil)
	case 4:
		sim.claim([]netip.Addr{sim.anyIP(sim.prefixes[sim.random.IntN(2)])})
	case 5:
		sim.useElsewhere()
	default:
		sim.release()
	}
}

// claim asks for addresses, in all cases with a pod of its own.
func (sim *simulation) claim(asked []netip.Addr) {
	node := sim.node()
	want := sim.expect(asked, node)
	sim.pods++
	uid := fmt.Sprintf("pod-%d", sim.pods)
	var result ipam.Result
	err := sim.store.Update(func(tx store.Tx) (err error) {
		result, err = ipam.Choose(tx, ipam.Request{
			VPC: "blue", Node: node, IPs: asked, Attachment: "eth0", Now: sim.now, Resting: sim.resting,
			Holder: store.Holder{Kind: store.HolderPod, Namespace: "shop", Name: uid, UID: uid},
		})
		if err != nil {
			return err
		}
		return ipam.Assume(tx, result)
	})
	var refusal *ipam.Error
	if err != nil && !errors.As(err, &refusal) {
		sim.t.Fatalf("claim %v: %v", asked, err)
	}
	if fmt.Sprint(result.IPs) != fmt.Sprint(want) {
		sim.t.Fatalf("claim %v on %s: got %v (%v), want %v", asked, node, result.IPs, err, want)
	}
	for _, ip := range want {
		sim.held[ip] = node
		if len(asked) == 0 || asked[0] != ip {
			sim.cursor[ip.Is4()] = ip
		}
	}
}

func (sim *simulation) expect(asked []netip.Addr, node string) []netip.Addr {
	var want []netip.Addr
	for _, prefix := range sim.prefixes {
		ip := sim.next(prefix, node, sim.now)
		if len(asked) > 0 && prefix.Contains(asked[0]) {
			ip = asked[0]
			if _, isHeld := sim.held[ip]; isHeld || sim.blocked[ip] {
				return nil
			}
		}
		if !ip.IsValid() {
			return nil
		}
		want = append(want, ip)
	}
	return want
}

func (sim *simulation) release() {
	for _, prefix := range sim.prefixes {
		ip := sim.anyIP(prefix)
		if _, isHeld := sim.held[ip]; !isHeld {
			continue
		}
		update(sim.t, sim.store, func(tx store.Tx) error {
			if !store.DeleteAddress(tx, v1alpha1.AddressName("blue", ip), "") {
				return fmt.Errorf("address %s isn't in the store", ip)
			}
			return nil
		})
		sim.resting.Add("blue", ip, sim.now)
		delete(sim.held, ip)
		sim.released[ip] = sim.now
	}
}

// useElsewhere has another VPC take an address on a node, whatever it is.
func (sim *simulation) useElsewhere() {
	node, ip := sim.node(), sim.anyIP(sim.prefixes[sim.random.IntN(2)])
	for _, nodeIPs := range sim.other {
		if nodeIPs[ip] {
			return
		}
	}
	update(sim.t, sim.store, func(tx store.Tx) error {
		return store.PutAddress(tx, held("red", "elsewhere", ip.String(), node))
	})
	if sim.other[node] == nil {
		sim.other[node] = map[netip.Addr]bool{}
	}
	sim.other[node][ip] = true
}

// check compares the figures of the subnet.
func (sim *simulation) check() {
	var least int64 = 1 << 53
	for _, prefix := range sim.prefixes {
		var free int64
		for ip := prefix.Addr(); prefix.Contains(ip); ip = ip.Next() {
			if _, isHeld := sim.held[ip]; !isHeld && !sim.blocked[ip] {
				free++
			}
		}
		least = min(least, free)
	}
	sim.store.View(func(tx store.ReadTx) {
		row := store.GetSubnet(tx, "net1")
		if got := ipam.Free(tx, row); got != least {
			sim.t.Fatalf("Free is %d, want %d", got, least)
		}
		if got := used(tx, row); got != int64(len(sim.held)) {
			sim.t.Fatalf("Used is %d, want %d", got, len(sim.held))
		}
	})
}

func TestChoose_RandomRequests_EqualNaiveModel(t *testing.T) {
	for seed := range soak.Or(t, uint64(1000), 8) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			sim := newSimulation(t, seed)
			for range 600 {
				sim.step()
				sim.check()
			}
		})
	}
}
