// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/test/waits"
)

const (
	vniA, vniB = 20, 30
	// The most that the kernel may take to forget a client whose time is over.
	forgotten = 20 * time.Second
)

// stickyPlaces are where answerers listen.
var stickyPlaces = places("169.254.64.5:9001", "169.254.64.5:9002", "169.254.64.5:9003", "169.254.64.5:9004", "169.254.64.5:9005")

// stickyRig has a node port of one VPC's with affinity.
func stickyRig(t *testing.T, affinity time.Duration) (rig, ruleset.State) {
	t.Helper()
	r := newRig(t, 0)
	r.answerers(t, 9001, 9002, 9003, 9004, 9005)
	testnet.In(t, r.outside, func() error { return addAddress("eth0", "192.0.2.10/24") })
	frontend := nodePort("0.0.0.0", stickyPlaces, nil)
	frontend.Affinity, frontend.VNI = affinity, vniA
	s := testState()
	s.FlowsPerShadow, s.Frontends = 0, inOrder(frontend)
	r.applies(t, s)
	return r, s
}

func (r rig) applies(t *testing.T, s ruleset.State) {
	t.Helper()
	testnet.In(t, r.node, func() error { apply(t, s); return nil })
}

// clients returns the clients that have a place in a VPC's map.
func (r rig) clients(t *testing.T, vni uint32) (list []netip.Addr) {
	t.Helper()
	testnet.In(t, r.node, func() error {
		name := clientsName(vni, unix.NFPROTO_IPV4)
		elements, err := (&nftables.Conn{}).GetSetElements(clientMap(name, 0))
		for _, e := range elements {
			list = append(list, netip.AddrFrom4([4]byte(e.Key[:4])))
		}
		return err
	})
	return list
}

// stays returns the destination of several flows of a client.
func (r rig) stays(t *testing.T, source string) string {
	t.Helper()
	first := r.answered(t, source)
	for range 12 {
		if next := r.answered(t, source); next != first {
			t.Errorf("%s went to %s and to %s", source, first, next)
		}
	}
	return first
}

func TestAffinity_Timeout_BackendChosenAnew(t *testing.T) {
	r, _ := stickyRig(t, time.Second)
	first := r.answered(t, "192.0.2.9")
	for range 40 { // of five places, the same each time once in 10^27 times
		again := time.NewTicker(50 * time.Millisecond)
		defer again.Stop()
		for end := time.Now().Add(waits.Limit(forgotten)); len(r.clients(t, vniA)) > 0; <-again.C {
			if time.Now().After(end) {
				t.Fatalf("the client is remembered after %s", forgotten)
			}
		}
		if r.answered(t, "192.0.2.9") != first {
			return
		}
	}
	t.Errorf("%s has answered ever since", first)
}

func TestAffinity_BackendRemains_ClientStays(t *testing.T) {
	r, s := stickyRig(t, time.Hour)
	at := map[string]string{}
	for _, source := range []string{"192.0.2.9", "192.0.2.10"} {
		at[source] = r.stays(t, source)
	}
	without := func(port string) {
		t.Helper()
		less := *s.Frontends[0]
		less.All = slices.DeleteFunc(slices.Clone(less.All), func(p netip.AddrPort) bool { return fmt.Sprint(p.Port()) == port })
		s.Frontends = inOrder(less)
		r.applies(t, s)
	}
	gone := at["192.0.2.9"]
	without(gone)
	next := r.stays(t, "192.0.2.9")
	if next == gone {
		t.Errorf("a client goes to %s, which is gone", next)
	}
	if at["192.0.2.10"] != gone {
		if now := r.stays(t, "192.0.2.10"); now != at["192.0.2.10"] {
			t.Errorf("a client whose place is one still has moved from %s to %s", at["192.0.2.10"], now)
		}
	}
	// A place that is added again gets none of its former clients.
	again := *s.Frontends[0]
	again.All = stickyPlaces
	s.Frontends = inOrder(again)
	r.applies(t, s)
	if now := r.stays(t, "192.0.2.9"); now != next {
		t.Errorf("a client has moved from %s to %s", next, now)
	}
}

func TestAffinity_SeveralVPC_MapRoomSeparate(t *testing.T) {
	r, s := stickyRig(t, time.Hour)
	other := *s.Frontends[0]
	other.Port, other.VNI = 30001, vniB
	s.Frontends = inOrder(*s.Frontends[0], other)
	r.applies(t, s)
	testnet.In(t, r.node, func() error {
		set := clientMap(clientsName(vniB, unix.NFPROTO_IPV4), 0)
		conn := &nftables.Conn{}
		all := contents{}
		for i := range clientsPerVPC {
			client := netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})
			all[string(client.AsSlice())+keyOfFrontend(&other)] = leadsTo{place: placeText(stickyPlaces[0])}
		}
		if _, err := replaceElements(conn, set, nil, all); err != nil {
			return err
		}
		return conn.Flush()
	})
	r.stays(t, "192.0.2.9")
	if list := r.clients(t, vniA); !slices.Equal(list, []netip.Addr{netip.MustParseAddr("192.0.2.9")}) {
		t.Errorf("the VPC remembers %v", list)
	}
	// Without room a client's address decides, and no other client's entry is removed.
	other.Port = 30000
	s.Frontends = inOrder(other)
	r.applies(t, s)
	r.stays(t, "192.0.2.10")
	if list := r.clients(t, vniB); len(list) != clientsPerVPC || slices.Contains(list, netip.MustParseAddr("192.0.2.10")) {
		t.Errorf("%d places are remembered", len(list))
	}
}

func TestAffinity_IPv6_ClientStays(t *testing.T) {
	r := newRig(t, 0)
	routeThroughNode(t, r)
	frontend := nodePort("::", places("[fd41:6c69:6f74:6801::5]:9000"), nil)
	frontend.Affinity, frontend.VNI = time.Hour, vniA
	r.serve(t, frontend)
	for range 2 { // it settles, and stays
		q := fromOutside6(r)
		q.to, q.target, q.port, q.dialled, q.dialledPort = r.pod, pod6, 9000, "2001:db8::1", 30000
		if _, err := q.ask(t); err != nil {
			t.Error(err)
		}
	}
	testnet.In(t, r.node, func() error {
		elements, err := (&nftables.Conn{}).GetSetElements(clientMap(clientsName(vniA, unix.NFPROTO_IPV6), 0))
		if len(elements) != 1 {
			t.Errorf("%d places are remembered", len(elements))
		}
		return err
	})
}

func TestAffinityMaps_FrontendsComeAndGo_Follow(t *testing.T) {
	testnet.In(t, testnet.New(t), func() error {
		s := testState()
		sticky := func(port uint16, vni uint32) ruleset.Frontend {
			f := nodePort("0.0.0.0", stickyPlaces, stickyPlaces)
			f.Port, f.Affinity, f.VNI = port, time.Hour, vni
			return f
		}
		for _, c := range []struct {
			frontends []ruleset.Frontend
			want      []string
		}{
			{[]ruleset.Frontend{sticky(30000, vniA)}, []string{"clients_20_4", "clients_20_6"}},
			{[]ruleset.Frontend{sticky(30000, vniA), sticky(30001, vniA), sticky(30002, vniB)}, []string{"clients_20_4", "clients_20_6", "clients_30_4", "clients_30_6"}},
			{[]ruleset.Frontend{sticky(30002, vniB)}, []string{"clients_30_4", "clients_30_6"}},
			{nil, nil},
		} {
			s.Frontends = inOrder(c.frontends...)
			apply(t, s)
			held, err := heldClients(&nftables.Conn{})
			if err != nil {
				return err
			}
			for _, name := range c.want {
				if !held[name] {
					t.Errorf("no map %s in %v", name, held)
				}
			}
			if len(held) != len(c.want) {
				t.Errorf("maps %v, want %v", held, c.want)
			}
		}
		return nil
	})
}
