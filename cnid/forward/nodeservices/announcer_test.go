// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeservices

import (
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"testing"

	"github.com/alioth-net/alioth/cnid/forward/netdev"
)

// acting is a network that calls functions.
type acting struct {
	send, join func(ifindex int, ips []netip.Addr) error
}

// Announce implements network.
func (a acting) Announce(ifindex int, _ [6]byte, ips []netip.Addr) error { return a.send(ifindex, ips) }

// Join implements network.
func (a acting) Join(ifindex int, ips []netip.Addr) error { return a.join(ifindex, ips) }

func TestAnnouncer_NewNodeAddress_AnnouncedFewTimes(t *testing.T) {
	a := NewAnnouncer(slog.New(slog.DiscardHandler))
	sent := map[netip.Addr]int{}
	var failure error
	send := func(ifindex int, ips []netip.Addr) error {
		if ifindex != 3 {
			t.Errorf("sent on device %d", ifindex)
		}
		for _, ip := range ips {
			sent[ip]++
		}
		return failure
	}
	var joined []netip.Addr
	join := func(ifindex int, ips []netip.Addr) error {
		joined = ips
		if ifindex != 3 {
			t.Errorf("joined on device %d", ifindex)
		}
		return failure
	}
	a.network = acting{send, join}
	one, two := netip.MustParseAddr("192.0.2.80"), netip.MustParseAddr("192.0.2.81")
	at := netdev.Underlay{Ifindex: 3, MAC: [6]byte{2}}
	rounds := func(want map[netip.Addr]int) {
		t.Helper()
		for a.round() {
		}
		for _, ip := range []netip.Addr{one, two} {
			if sent[ip] != want[ip] {
				t.Errorf("%s has been announced %d times, want %d", ip, sent[ip], want[ip])
			}
		}
	}
	a.Update(at, []netip.Addr{one})
	rounds(map[netip.Addr]int{one: 3})
	failure = errors.New("no route")
	a.Update(at, []netip.Addr{one, two})
	rounds(map[netip.Addr]int{one: 3, two: 3})
	a.Update(at, []netip.Addr{two})
	a.Update(at, []netip.Addr{one, two}) // it has been another node's meanwhile
	rounds(map[netip.Addr]int{one: 6, two: 3})
	at.MAC[0] = 4
	a.Update(at, []netip.Addr{one, two})
	rounds(map[netip.Addr]int{one: 9, two: 6})
	if !slices.Equal(joined, []netip.Addr{one, two}) {
		t.Errorf("in the groups of %v", joined)
	}
}
