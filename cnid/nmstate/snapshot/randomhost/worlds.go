// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package randomhost

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
	"github.com/alioth-net/alioth/test/soak"
	"github.com/alioth-net/alioth/test/waits"
)

// Worlds plays a test in some random worlds, in each with random numbers of its own, and in
// ten times as many in a soak. The environment variable ALIOTH_SEED repeats a world that has
// failed.
func Worlds(t *testing.T, count int, play func(t *testing.T, r *rand.Rand)) {
	t.Helper()
	count = soak.Or(t, 10*count, count)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("ALIOTH_SEED"); text != "" {
		given, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed, count = given, 1
	}
	for n := range uint64(count) {
		t.Run(fmt.Sprintf("ALIOTH_SEED=%d", seed+n), func(t *testing.T) { play(t, rand.New(rand.NewPCG(seed+n, 0))) })
	}
}

// bare is a host before it is furnished.
const bare = `
sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0
ip link set lo up
ip link add eth1 type veth peer name eth1.ep
ip link add eth2 type veth peer name eth2.ep
ip link add eth3 type veth peer name eth3.ep
ip link set eth1 up
ip link set eth1.ep up
ip link set eth2 up
ip link set eth2.ep up
ip link set eth3 up
ip link set eth3.ep up
`

// Furnished returns a random host.
func Furnished(t testing.TB, m Maker) *Host {
	t.Helper()
	h := New(t)
	h.Run(bare)
	const ends = 6
	// The kernel makes the address of a link that never was ready when it is.
	waits.Until(t, 10*time.Second, "all devices have an address of the link", func() error {
		out, err := h.Try("ip -6 -o addr show scope link")
		if n := strings.Count(out, "\n"); err == nil && n < ends {
			err = fmt.Errorf("%d have one", n)
		}
		return err
	})
	h.Play(m.Host())
	return h
}

// Virtual are the devices that commands and documents make.
func Virtual() []string {
	return []string{"br0", "br1", "eth1.10", "br0.20", "mv0", "vx0", "bond0", "vrf0", "dummy0"}
}

// Devices are all devices of commands and documents.
func Devices() []string { return append([]string{"eth1", "eth2", "eth3"}, Virtual()...) }

// prefixes is how many networks of each family routes lead to.
const prefixes = 5

// Destinations are those of the routes that commands add and remove.
func Destinations() (list []snapshot.Destination) {
	for n := range prefixes {
		for _, format := range []string{"198.18.%d.0/24", "fd01:%d::/64"} {
			list = append(list, snapshot.Destination{Prefix: netip.MustParsePrefix(fmt.Sprintf(format, n)), Table: unix.RT_TABLE_MAIN})
		}
	}
	return list
}
