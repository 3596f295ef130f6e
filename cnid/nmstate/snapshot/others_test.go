// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot_test

import (
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
)

// TestWhatOthersDoMeanwhileStays on a device that the change touches: what they add, and what they
// write anew or withdraw.
func TestWhatOthersDoMeanwhileStays(t *testing.T) {
	h := furnished(t, `ip link set eth1 up
ip addr add 192.0.2.10/24 dev eth1
ip addr add 192.0.2.20/24 dev eth1
ip addr add 192.0.2.66/32 dev eth1
ip addr add fd00::10/64 dev eth1 nodad
ip neigh add 192.0.2.8 dev eth1 lladdr 02:00:00:00:00:08
ip neigh add 192.0.2.9 dev eth1 lladdr 02:00:00:00:00:09
ip -6 route add fd01::/64 via fd00::9 dev eth1 proto bird hoplimit 10
ip -6 route add fd02::/64 via fd00::9 dev eth1 hoplimit 10
ip route add 198.18.0.0/24 via 192.0.2.1 dev eth1 window 1000`)
	prefix, gateway := netip.MustParsePrefix, netip.MustParseAddr("192.0.2.1")
	to := snapshot.Destination{Prefix: prefix("198.18.4.0/24"), Table: unix.RT_TABLE_MAIN}
	a := snapshot.Area{Routes: []snapshot.Destination{to}, Added: []snapshot.Addition{{Destination: to, Gateway: &gateway}}, Names: []string{"eth1"}, Addresses: map[string][]netip.Prefix{"eth1": {prefix("203.0.113.7/24"), prefix("fd07::7/64")}}}
	h.Settled()
	image := h.take(a)
	h.Run(`ip addr del 192.0.2.10/24 dev eth1
ip addr add 203.0.113.7/24 dev eth1
ip addr add fd07::7/64 dev eth1 nodad
ip route add 198.18.4.0/24 via 192.0.2.1 dev eth1 onlink proto static`)
	image.NoteSurvivors(h.all(a))
	h.Run(`ip addr add 203.0.113.77/24 dev eth1
ip addr add 192.0.2.77/24 dev eth1
ip addr add 198.51.100.77/24 dev eth1
ip addr add fd07::77/64 dev eth1 nodad
ip addr del 192.0.2.66/32 dev eth1
ip neigh replace 192.0.2.9 dev eth1 lladdr 02:00:00:00:00:99
ip route add 198.18.4.0/24 via 192.0.2.3 dev eth1 onlink proto static metric 7
ip neigh add 192.0.2.77 dev eth1 lladdr 02:00:00:00:00:77
ip -6 route change fd01::/64 via fd00::9 dev eth1 proto bird hoplimit 20
ip -6 route change fd02::/64 via fd00::9 dev eth1 hoplimit 20
ip route replace 198.18.0.0/24 via 192.0.2.1 dev eth1 window 2000`)
	h.back(image.WithoutWithdrawn(h.all(a)), a)
	for command, want := range map[string][]string{
		"ip -o addr show dev eth1":             {"192.0.2.10/24", "192.0.2.20/24", "192.0.2.77/24", "198.51.100.77/24", "203.0.113.77/24", "fd00::10/64", "fd07::77/64"},
		"ip neigh show dev eth1 nud permanent": {"192.0.2.8 lladdr 02:00:00:00:00:08", "192.0.2.9 lladdr 02:00:00:00:00:99", "192.0.2.77 lladdr 02:00:00:00:00:77"},
		"ip -6 route show":                     {"hoplimit 20", "fd01::/64", "fd02::/64", "fd07::/64"},
		"ip route show":                        {"window 2000", "198.18.4.0/24 via 192.0.2.3"},
	} {
		out := h.shown(command)
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("%s: lacks %s:\n%s", command, text, out)
			}
		}
		for _, text := range []string{"203.0.113.7/24", "fd07::7/64", "192.0.2.66", "hoplimit 10", "window 1000", "198.18.4.0/24 via 192.0.2.1"} {
			if strings.Contains(out, text) {
				t.Errorf("%s: has %s:\n%s", command, text, out)
			}
		}
	}
}
