// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v4_test

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
	v4 "github.com/alioth-net/alioth/cnid/nmstate/dhcp/v4"
)

// ack returns an acknowledgement of a server with options, as its bytes.
func ack(own [4]byte, options map[uint8][]byte) []byte {
	packet := &dhcpv4.DHCPv4{
		OpCode: dhcpv4.OpcodeBootReply, HWType: 1, ClientHWAddr: hardware, YourIPAddr: own[:],
		TransactionID: dhcpv4.TransactionID{0, 0, 0, 7}, Options: dhcpv4.Options{},
	}
	packet.UpdateOption(dhcpv4.OptMessageType(v4.ACK))
	packet.Options[54] = []byte{192, 0, 2, 1}
	packet.Options[51] = []byte{0, 0, 14, 16}
	packet.Options[1] = []byte{255, 255, 255, 0}
	for code, value := range options {
		if value == nil {
			delete(packet.Options, code)
		} else {
			packet.Options[code] = value
		}
	}
	return packet.ToBytes()
}

var us = [4]byte{192, 0, 2, 10}

func decode(t *testing.T, payload []byte) v4.Answer {
	t.Helper()
	answer, err := id.Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func number(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

func TestLease_ServerOptions_AllTaken(t *testing.T) {
	got := decode(t, ack(us, map[uint8][]byte{
		3: {192, 0, 2, 1, 192, 0, 2, 2}, 6: {192, 0, 2, 53, 198, 51, 100, 53}, 15: []byte("example.com"), 26: {5, 120},
	}))
	want := dhcp.Lease{
		Address: netip.MustParsePrefix("192.0.2.10/24"), Server: netip.MustParseAddr("192.0.2.1"), MTU: 1400,
		Routes: []dhcp.Route{{Destination: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("192.0.2.1")}},
		DNS:    []netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("198.51.100.53")}, Search: []string{"example.com"},
	}
	if diff := cmp.Diff(want, got.Lease, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" || got.Unusable != nil {
		t.Errorf("-want +got:\n%s%v", diff, got.Unusable)
	}
	if got.Time != time.Hour || got.Renew != 30*time.Minute || got.Rebind != 52*time.Minute+30*time.Second {
		t.Errorf("lifetimes %s, %s, %s", got.Time, got.Renew, got.Rebind)
	}
}

func TestLease_ClasslessDefaultRoute_ReplacesRouter(t *testing.T) {
	got := decode(t, ack(us, map[uint8][]byte{
		3:   {192, 0, 2, 1},
		121: {0, 192, 0, 2, 9, 24, 198, 51, 100, 203, 0, 113, 1, 32, 203, 0, 113, 1, 0, 0, 0, 0, 12, 10, 31, 192, 0, 2, 9},
	}))
	at := func(to, by string, onLink bool) dhcp.Route {
		r := dhcp.Route{Destination: netip.MustParsePrefix(to), OnLink: onLink}
		if by != "" {
			r.Gateway = netip.MustParseAddr(by)
		}
		return r
	}
	want := []dhcp.Route{
		at("0.0.0.0/0", "192.0.2.9", false), at("198.51.100.0/24", "203.0.113.1", true), at("203.0.113.1/32", "", false), at("10.16.0.0/12", "192.0.2.9", false),
	}
	if diff := cmp.Diff(want, got.Lease.Routes, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLease_PartialClasslessRoutes_RouterKept(t *testing.T) {
	router := "0.0.0.0/0 192.0.2.1"
	for name, c := range map[string]struct {
		classless []byte
		want      []string
	}{
		"one network":      {[]byte{24, 198, 51, 100, 192, 0, 2, 9}, []string{router, "198.51.100.0/24 192.0.2.9"}},
		"half of all":      {[]byte{1, 128, 192, 0, 2, 9}, []string{router, "128.0.0.0/1 192.0.2.9"}},
		"both halves":      {[]byte{1, 0, 192, 0, 2, 9, 1, 128, 192, 0, 2, 9}, []string{"0.0.0.0/1 192.0.2.9", "128.0.0.0/1 192.0.2.9"}},
		"nothing readable": {[]byte{33}, []string{router}},
		"no router there":  {[]byte{0, 192, 0, 2, 10}, []string{router}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range decode(t, ack(us, map[uint8][]byte{3: {192, 0, 2, 1}, 121: c.classless})).Lease.Routes {
				got = append(got, r.Destination.String()+" "+r.Gateway.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestLease_UnusableValues_Refused(t *testing.T) {
	for name, c := range map[string]struct {
		own     [4]byte
		options map[uint8][]byte
		want    string
	}{
		"no address":         {[4]byte{}, nil, "which no host can have"},
		"multicast":          {[4]byte{224, 0, 0, 1}, nil, "which no host can have"},
		"broadcast":          {[4]byte{255, 255, 255, 255}, nil, "which no host can have"},
		"loopback":           {[4]byte{127, 0, 0, 1}, nil, "which no host can have"},
		"the network":        {[4]byte{192, 0, 2, 0}, nil, "the address of the network"},
		"its broadcast":      {[4]byte{192, 0, 2, 255}, nil, "broadcast address"},
		"mask with holes":    {us, map[uint8][]byte{1: {255, 0, 255, 0}}, "as network mask"},
		"mask of zeros":      {us, map[uint8][]byte{1: {0, 0, 0, 0}}, "as network mask"},
		"short mask":         {us, map[uint8][]byte{1: {255, 255}}, "mask of 2 bytes"},
		"no lease time":      {us, map[uint8][]byte{51: nil}, "no lease time"},
		"odd lease time":     {us, map[uint8][]byte{51: {0, 0, 1}}, "no lease time"},
		"lease time of zero": {us, map[uint8][]byte{51: {0, 0, 0, 0}}, "lease of 0s"},
		"a moment":           {us, map[uint8][]byte{51: number(9)}, "lease of 9s"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decode(t, ack(c.own, c.options)); got.Unusable == nil || !strings.Contains(got.Unusable.Error(), c.want) {
				t.Errorf("got %v; want %q", got.Unusable, c.want)
			}
		})
	}
}

func TestLease_InvalidOptionalParts_LeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		options map[uint8][]byte
		is      func(v4.Answer) bool
	}{
		"gateway 0.0.0.0":          {map[uint8][]byte{3: {0, 0, 0, 0}}, func(a v4.Answer) bool { return a.Lease.Routes == nil }},
		"gateway is the host":      {map[uint8][]byte{3: us[:]}, func(a v4.Answer) bool { return a.Lease.Routes == nil }},
		"gateway is the broadcast": {map[uint8][]byte{3: {192, 0, 2, 255}}, func(a v4.Answer) bool { return a.Lease.Routes == nil }},
		"the second gateway is one": {map[uint8][]byte{3: {224, 0, 0, 5, 192, 0, 2, 7}}, func(a v4.Answer) bool {
			return len(a.Lease.Routes) == 1 && a.Lease.Routes[0].Gateway.As4()[3] == 7
		}},
		"gateway off the link":          {map[uint8][]byte{3: {203, 0, 113, 1}}, func(a v4.Answer) bool { return a.Lease.Routes[0].OnLink }},
		"an unreadable route":           {map[uint8][]byte{121: {8, 10, 192, 0, 2, 9, 33, 1, 2, 3}}, func(a v4.Answer) bool { return len(a.Lease.Routes) == 1 }},
		"routes to multicast and lo":    {map[uint8][]byte{121: {4, 224, 192, 0, 2, 9, 8, 127, 192, 0, 2, 9}}, func(a v4.Answer) bool { return a.Lease.Routes == nil }},
		"a route twice":                 {map[uint8][]byte{121: {8, 10, 192, 0, 2, 9, 8, 10, 192, 0, 2, 8}}, func(a v4.Answer) bool { return len(a.Lease.Routes) == 1 }},
		"names with control characters": {map[uint8][]byte{15: []byte("ex\x1b[31m.com\nnameserver 1.2.3.4")}, func(a v4.Answer) bool { return a.Lease.Search == nil }},
		"search list with a good name":  {map[uint8][]byte{119: []byte("\x02a \x00\x01b\x01c\x00")}, func(a v4.Answer) bool { return len(a.Lease.Search) == 1 && a.Lease.Search[0] == "b.c" }},
		"MTU of 68":                     {map[uint8][]byte{26: {0, 68}}, func(a v4.Answer) bool { return a.Lease.MTU == 0 }},
		"MTU of 0":                      {map[uint8][]byte{26: {0, 0}}, func(a v4.Answer) bool { return a.Lease.MTU == 0 }},
		"name servers of nobody":        {map[uint8][]byte{6: {0, 0, 0, 0, 255, 255, 255, 255, 192, 0, 2, 53, 1}}, func(a v4.Answer) bool { return len(a.Lease.DNS) == 1 }},
		"T1 after T2": {map[uint8][]byte{58: number(3000), 59: number(2000)}, func(a v4.Answer) bool {
			return a.Renew < a.Rebind && a.Rebind == 2000*time.Second
		}},
		"T2 after the end": {map[uint8][]byte{59: number(4000)}, func(a v4.Answer) bool { return a.Rebind == 3150*time.Second }},
		"T1 of 0":          {map[uint8][]byte{58: number(0)}, func(a v4.Answer) bool { return a.Renew == 30*time.Minute }},
		"forever":          {map[uint8][]byte{51: number(1<<32 - 1)}, func(a v4.Answer) bool { return a.Time == 0 }},
		"no mask":          {map[uint8][]byte{1: nil}, func(a v4.Answer) bool { return a.Lease.Address.Bits() == 24 }},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decode(t, ack(us, c.options)); got.Unusable != nil || !c.is(got) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestLease_ManyEntries_Limited(t *testing.T) {
	var routes, servers, search []byte
	for n := range byte(200) {
		routes = append(routes, 24, 10, 0, n, 192, 0, 2, 9)
		servers = append(servers, 192, 0, 2, 1+n)
		search = append(search, 2, 'a'+n/26, 'a'+n%26, 0)
	}
	got := decode(t, ack(us, map[uint8][]byte{121: routes, 6: servers, 119: search})).Lease
	if len(got.Routes) != dhcp.MaxRoutes || len(got.DNS) != dhcp.MaxDNS || len(got.Search) != dhcp.MaxSearch {
		t.Errorf("%d routes, %d servers, %d domains", len(got.Routes), len(got.DNS), len(got.Search))
	}
}

func TestDHCPv4Message_ForOtherClient_Ignored(t *testing.T) {
	good := ack(us, nil)
	change := func(at int, to byte) []byte {
		p := append([]byte(nil), good...)
		p[at] = to
		return p
	}
	for name, payload := range map[string][]byte{
		"empty": {}, "a request": change(0, 1), "another hardware address": change(33, 9), "no cookie": change(236, 0), "cut off": good[:245],
		"another client": ack(us, map[uint8][]byte{61: {1, 2, 3}}), "no server": ack(us, map[uint8][]byte{54: nil}), "odd server": ack(us, map[uint8][]byte{54: {1}}),
		"no type": ack(us, map[uint8][]byte{53: nil}), "a type of clients": ack(us, map[uint8][]byte{53: {1}}),
	} {
		if _, err := id.Decode(payload); err == nil {
			t.Errorf("%s: it is an answer", name)
		}
	}
}

// FuzzAnswers looks at what a hostile server may write: nothing of it may exceed the limits of a
// lease, or end the process.
func FuzzAnswers(f *testing.F) {
	f.Add(ack(us, map[uint8][]byte{3: {192, 0, 2, 1}, 6: {192, 0, 2, 53}, 26: {5, 120}, 119: []byte("\x01b\x01c\x00\xc0\x02")}))
	f.Add(ack(us, map[uint8][]byte{121: []byte(strings.Repeat("\x20\x0a\x00\x00\x01\xc0\x00\x02\x01", 200))}))
	f.Fuzz(func(t *testing.T, payload []byte) {
		a, err := id.Decode(payload)
		if err != nil || a.Unusable != nil || a.Kind == v4.NAK {
			return
		}
		checkLease(t, a.Lease)
		if a.Time != 0 && (a.Time < dhcp.MinTime || a.Renew < time.Second || a.Renew >= a.Rebind || a.Rebind >= a.Time) {
			t.Errorf("lifetimes %s, %s, %s", a.Renew, a.Rebind, a.Time)
		}
	})
}

func checkLease(t *testing.T, l dhcp.Lease) {
	t.Helper()
	if len(l.Routes) > dhcp.MaxRoutes || len(l.DNS) > dhcp.MaxDNS || len(l.Search) > dhcp.MaxSearch {
		t.Errorf("%d routes, %d servers, %d domains", len(l.Routes), len(l.DNS), len(l.Search))
	}
	if own := l.Address.Addr(); !own.IsGlobalUnicast() && !own.IsLinkLocalUnicast() || l.Address.Bits() < 1 {
		t.Errorf("address %s", l.Address)
	}
	for _, r := range l.Routes {
		if r.Destination != r.Destination.Masked() || r.Gateway.IsMulticast() || r.Gateway == l.Address.Addr() {
			t.Errorf("route %+v", r)
		}
	}
	for _, name := range l.Search {
		if !dhcp.IsDomain(name) {
			t.Errorf("domain %q", name)
		}
	}
	if l.MTU != 0 && (l.MTU < dhcp.MinMTU || l.MTU > dhcp.MaxMTU) {
		t.Errorf("MTU %d", l.MTU)
	}
}
