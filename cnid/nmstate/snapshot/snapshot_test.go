// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/randomhost"
	"github.com/alioth-net/alioth/test/waits"
)

type host struct {
	*randomhost.Host
	t testing.TB
}

// back leads a host back to an image, and returns what can't be restored. The kernel needs
// time for some requests: it takes an address as the source of a route once it has tried the
// address, and a next hop once the device has heard of its carrier.
func (h *host) back(before *snapshot.Image, a snapshot.Area) (gone []string) {
	h.t.Helper()
	ctx := context.Background()
	last, same := "", 0
	waits.Until(h.t, 10*time.Second, "no request is left", func() error {
		requests, impossible := h.compare(before, a)
		if gone = impossible; len(requests) == 0 {
			return nil
		}
		if shape := fmt.Sprint(requests); shape != last {
			last, same = shape, 0
		}
		if same++; same > tries && !slices.ContainsFunc(requests, isOwn) {
			return nil // The former state has no place for objects of others.
		}
		var failures []string
		for _, r := range requests {
			if err := h.Replay(ctx, r); err != nil {
				failures = append(failures, fmt.Sprintf("%v: %x", err, []byte(r.Body)))
			}
		}
		return fmt.Errorf("%d are, %d fail: %s", len(requests), len(failures), strings.Join(failures, " | "))
	})
	return gone
}

// tries is how often an undo asks for what others have added.
const tries = 5

func isOwn(r snapshot.Request) bool { return !r.Theirs }

func (h *host) compare(before *snapshot.Image, a snapshot.Area) ([]snapshot.Request, []string) {
	h.t.Helper()
	now, err := snapshot.Take(h.t.Context(), h, a)
	if err != nil {
		h.t.Fatal(err)
	}
	return snapshot.Back(before, now, a, time.Second)
}

func (h *host) take(a snapshot.Area) *snapshot.Image { return h.all(a).Within(a) }

func (h *host) all(a snapshot.Area) *snapshot.Image {
	h.t.Helper()
	i, err := snapshot.Take(h.t.Context(), h, a)
	if err != nil {
		h.t.Fatal(err)
	}
	return i
}

const beginning = `
ip link set lo up
ip link add eth1 type veth peer name eth1.ep
ip link set eth1 up
ip link set eth1.ep up
ip addr add 192.0.2.10/24 dev eth1
ip route add default via 198.51.100.1 dev eth1 onlink proto dhcp
ip route add 203.0.113.0/24 nexthop via 192.0.2.1 dev eth1 weight 1 nexthop via 192.0.2.2 dev eth1 weight 3
ip route add 198.18.0.0/24 via 192.0.2.1 mtu lock 1350 advmss 1300 initcwnd 20
ip route add 198.18.1.0/24 via 192.0.2.1 proto bird metric 32
ip route add 198.18.2.0/24 via 192.0.2.1 realm 7
ip route add 198.18.3.0/24 via 192.0.2.1 tos 0x10 table 300
ip addr add 192.0.2.20/24 dev eth1 label eth1:a
ip addr add 192.0.2.30/24 dev eth1 valid_lft 3000 preferred_lft 2000
ip addr add 10.77.0.1 peer 10.77.0.2/32 dev eth1
ip neigh add 192.0.2.9 dev eth1 lladdr 02:00:00:00:00:09
ip neigh add proxy 192.0.2.99 dev eth1
ip addr add fd00::1/64 dev eth1 nodad
ip addr add fd00::2/64 dev eth1 nodad noprefixroute
ip -6 route add fd01::/64 via fd00::9 dev eth1 proto 80 metric 77
ip nexthop add id 5 via 192.0.2.1 dev eth1
ip nexthop add id 6 via 192.0.2.2 dev eth1
ip nexthop add id 7 group 5/6
ip route add 198.18.9.0/24 nhid 7
ip route add blackhole 198.18.10.0/24
ip route add 198.18.11.0/24 dev eth1 src 192.0.2.20
`

func TestRestore_KernelObjects_EqualToSnapshot(t *testing.T) {
	for name, change := range map[string]string{
		"down and up":         "ip link set eth1 down\nip link set eth1 up",
		"down":                "ip link set eth1 down",
		"flushed":             "ip addr flush dev eth1",
		"an address":          "ip addr add 192.0.2.11/24 dev eth1\nip addr del 192.0.2.10/24 dev eth1",
		"deleted":             "ip link del eth1",
		"MTU, alias and name": "ip link set eth1 mtu 1280 alias changed txqueuelen 5\nip link set eth1 promisc on",
		"a port of a bridge":  "ip link add br0 type bridge\nip link set br0 up\nip link set eth1 master br0\nip addr flush dev eth1",
		"without IPv6":        "sysctl -qw net.ipv6.conf.eth1.disable_ipv6=1",
		"small":               "ip link set eth1 mtu 1000",
		"another device":      "ip link del eth1\nip link add eth1 type bridge\nip addr add 192.0.2.10/24 dev eth1",
		"routes":              "ip route del default\nip route add default via 192.0.2.3 dev eth1 proto static\nip route flush table 300",
	} {
		t.Run(name, func(t *testing.T) {
			h := &host{randomhost.New(t), t}
			h.Run(beginning)
			to := []snapshot.Destination{{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Table: unix.RT_TABLE_MAIN}}
			a := snapshot.Area{
				Names:   []string{"eth1", "br0"},
				Made:    []string{"br0", "eth1"},
				Removed: []string{"eth1"},
				Routes:  to,
				Added:   []snapshot.Addition{{Destination: to[0]}},
			}
			before := h.Settled()
			image := h.take(a)
			h.Run(change)
			if gone := h.back(image, a); len(gone) > 0 {
				t.Errorf("gone: %v", gone)
			}
			h.Is(before)
		})
	}
}
