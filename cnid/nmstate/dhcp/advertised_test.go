// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// serverOption returns an option with name servers.
func serverOption(seconds uint32, servers ...string) []byte {
	option := binary.BigEndian.AppendUint32([]byte{optionServers, byte(1 + 2*len(servers)), 0, 0}, seconds)
	for _, server := range servers {
		octets := netip.MustParseAddr(server).As16()
		option = append(option, octets[:]...)
	}
	return option
}

// domainOption returns an option with search domains.
func domainOption(seconds uint32, domains ...string) []byte {
	option := binary.BigEndian.AppendUint32([]byte{optionDomains, 0, 0, 0}, seconds)
	for _, domain := range domains {
		for label := range strings.SplitSeq(domain, ".") {
			option = append(append(option, byte(len(label))), label...)
		}
		option = append(option, 0)
	}
	for len(option)%optionUnit > 0 {
		option = append(option, 0)
	}
	option[1] = byte(len(option) / optionUnit)
	return option
}

func (a Advertised) words(now time.Time) string {
	words := ""
	for _, t := range append(a.Live(now).DNS, a.Live(now).Search...) {
		words += t.Text + " "
	}
	return strings.TrimSpace(words)
}

func TestRouterInfo_Lifetime_ValidUntilEnd(t *testing.T) {
	now := time.Now()
	a := Advertised{Index: 5}
	for _, c := range []struct {
		options []byte
		changed bool
		want    string
	}{
		{append(serverOption(60, "2001:db8::53", "fe80::1"), domainOption(120, "a.example", "b.example")...), true, "2001:db8::53 fe80::1 a.example b.example"},
		{serverOption(60, "2001:db8::53"), false, "2001:db8::53 fe80::1 a.example b.example"},
		{serverOption(0, "fe80::1"), true, "2001:db8::53 a.example b.example"},
		{serverOption(Forever, "2001:db8::54"), true, "2001:db8::53 2001:db8::54 a.example b.example"},
		{serverOption(60, "ff02::1", "::", "::1", "::ffff:192.0.2.1"), false, "2001:db8::53 2001:db8::54 a.example b.example"},
		{domainOption(60, "with space.example"), false, "2001:db8::53 2001:db8::54 a.example b.example"},
		{[]byte{1, 1, 2, 0, 0, 0, 0, 1}, false, "2001:db8::53 2001:db8::54 a.example b.example"}, // a link-layer address
	} {
		if changed := a.Note(c.options, now); changed != c.changed || a.words(now) != c.want {
			t.Errorf("%v: %q, changed: %t; want %q, %t", c.options, a.words(now), changed, c.want, c.changed)
		}
	}
	for after, want := range map[time.Duration]string{
		time.Minute: "2001:db8::54 a.example b.example", 2 * time.Minute: "2001:db8::54", 23 * time.Hour: "2001:db8::54", 24 * time.Hour: "",
	} {
		if got := a.words(now.Add(after)); got != want {
			t.Errorf("after %v: %q, want %q", after, got, want)
		}
	}
}

func TestRouterInfo_ManyServers_BoundedLikeLease(t *testing.T) {
	now := time.Now()
	var a Advertised
	for n := range 20 {
		a.Note(serverOption(60, fmt.Sprintf("2001:db8::%x", n+1)), now)
	}
	if len(a.DNS) != MaxDNS {
		t.Errorf("there are %d", len(a.DNS))
	}
	a.Note(serverOption(0, "2001:db8::1"), now)
	a.Note(serverOption(60, "2001:db8::99"), now)
	if len(a.DNS) != MaxDNS || !strings.HasSuffix(a.words(now), "2001:db8::99") {
		t.Errorf("one that is over keeps its place: %q", a.words(now))
	}
}

func TestRouterInfo_OlderData_KeptUnlessContradicted(t *testing.T) {
	now := time.Now()
	before, is := Advertised{Index: 5}, Advertised{Index: 5}
	before.Note(serverOption(60, "2001:db8::1", "2001:db8::2"), now)
	is.Note(append(serverOption(0, "2001:db8::1"), serverOption(60, "2001:db8::3")...), now)
	if got := is.After(before, now).words(now); got != "2001:db8::3 2001:db8::2" {
		t.Errorf("together they are %q", got)
	}
	before.Index = 6
	if got := is.After(before, now).words(now); got != "2001:db8::3" {
		t.Errorf("with those of another interface they are %q", got)
	}
}

// TestRouterInfo_AnyOptionBytes_ReaderSurvives: anybody on the link may send one.
func TestRouterInfo_AnyOptionBytes_ReaderSurvives(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var a Advertised
	for range 20_000 {
		option := make([]byte, r.IntN(64))
		for n := range option {
			option[n] = byte(r.IntN(256))
		}
		if len(option) > 1 && r.IntN(4) > 0 {
			option[0], option[1] = []byte{optionServers, optionDomains}[r.IntN(2)], byte(r.IntN(9))
		}
		a.Note(option, time.Now())
		for _, s := range a.DNS {
			if server, err := netip.ParseAddr(s.Text); err != nil || !IsServer6(server) {
				t.Fatalf("a server is %q", s.Text)
			}
		}
		for _, s := range a.Search {
			if !IsDomain(s.Text) {
				t.Fatalf("a domain is %q", s.Text)
			}
		}
	}
}
