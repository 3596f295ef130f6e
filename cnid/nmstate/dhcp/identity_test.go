// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp_test

import (
	"encoding/hex"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
)

var hardware = net.HardwareAddr{2, 0, 0, 0, 0, 1}

func TestDHCPIdentifier_EachKind_MatchesDocument(t *testing.T) {
	machine := dhcp.Machine{UUID: [16]byte{0xaa, 15: 0xbb}, Since: 7}
	for _, c := range []struct{ id, duid, want string }{
		{"", "", "01020000000001"},
		{"ll", "uuid", "01020000000001"},
		{"01:0a:ff", "", "010aff"},
		{"iaid+duid", "", "ff" + "iaid" + "00030001020000000001"},
		{"iaid+duid", "ll", "ff" + "iaid" + "00030001020000000001"},
		{"iaid+duid", "llt", "ff" + "iaid" + "0001000100000007020000000001"},
		{"iaid+duid", "uuid", "ff" + "iaid" + "0004aa0000000000000000000000000000bb"},
		{"iaid+duid", "00:09:00", "ff" + "iaid" + "000900"},
	} {
		got, err := dhcp.ClientID(&dhcp.V4{ClientID: c.id, DUID: c.duid}, "eth1", hardware, machine)
		iaid := dhcp.IAID("eth1")
		if want := strings.Replace(c.want, "iaid", hex.EncodeToString(iaid[:]), 1); err != nil || hex.EncodeToString(got) != want {
			t.Errorf("%q with %q: got %x, %v; want %s", c.id, c.duid, got, err, want)
		}
	}
	if dhcp.IAID("eth1") == dhcp.IAID("eth1.5") {
		t.Error("a VLAN has the IAID of its interface")
	}
}

func TestDHCPIdentifier_Invalid_Refused(t *testing.T) {
	for _, text := range []string{"01", "mac", "01:2", "01:zz", "01:02:", strings.Repeat("01:", 254) + "01", "\x1b[31m"} {
		if err := dhcp.CheckClientID(text); err == nil || !strings.Contains(err.Error(), `expected "ll", "iaid+duid", or 2 to 254 octets`) ||
			strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: got %v", text, err)
		}
	}
	for text, want := range map[string]string{"en": "written as octets", "00:01": `expected "ll", "llt", "uuid", or 3 to 130 octets`, "ll ": "expected", "00:04:01": "a DUID of type 4 has another length", "00:01:00:01": "another length"} {
		if err := dhcp.CheckDUID(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", text, err)
		}
	}
	for _, name := range []string{"a b", "-a", "a..b", strings.Repeat("a", 64), "node\n1"} {
		if err := (&dhcp.V6{Hostname: name}).Check("eth1"); err == nil || !strings.Contains(err.Error(), "the name that the DHCP client on eth1 sends is") {
			t.Errorf("%q: got %v", name, err)
		}
	}
	if err := (&dhcp.V4{ClientID: "mac", Hostname: "node-1"}).Check("eth1"); err == nil ||
		!strings.Contains(err.Error(), "the identifier of the DHCP client on eth1 is") {
		t.Errorf("got %v", err)
	}
}

func TestLeaseLifetime_Fractions_WholeSeconds(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for left, want := range map[time.Duration]uint32{
		time.Hour: 3600, 1500 * time.Millisecond: 1, time.Millisecond: 1, 0: 0, -time.Second: 0, 200 * 365 * 24 * time.Hour: dhcp.Forever - 1,
	} {
		l := &dhcp.Lease{Expires: now.Add(left)}
		if got, forever := l.Lifetimes(now); got != want || forever != dhcp.Forever || l.Expired(now) != (left <= 0) {
			t.Errorf("%s: got %d and %d, expired: %v", left, got, forever, l.Expired(now))
		}
	}
}
