// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package randomhost

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
	"github.com/alioth-net/alioth/test/soak"
	"github.com/alioth-net/alioth/test/waits"
)

// Worlds plays a test in some random worlds, in each with random numbers of its own, and in
// a hundred times as many in a soak.
func Worlds(t *testing.T, count int, play func(t *testing.T, r *rand.Rand)) {
	t.Helper()
	seed, count := soak.Worlds(t, 100*count, count)
	for n := range uint64(count) {
		t.Run(soak.World(seed+n), func(t *testing.T) {
			t.Parallel()
			play(t, rand.New(rand.NewPCG(seed+n, 0)))
		})
	}
}

// bare are the commands that make a host before it is furnished.
const bare = `link set lo up
link add eth1 type veth peer name eth1.ep
link add eth2 type veth peer name eth2.ep
link add eth3 type veth peer name eth3.ep
link set eth1 up
link set eth1.ep up
link set eth2 up
link set eth2.ep up
link set eth3 up
link set eth3.ep up`

// Furnished returns a random host.
func Furnished(t testing.TB, m Maker) *Host {
	t.Helper()
	h := New(t)
	h.Space.Do(t, func() error {
		return errors.Join(set(setting{"ipv6/conf/default/accept_dad", "0"}), set(setting{"ipv6/conf/all/accept_dad", "0"}))
	})
	h.Play(Stage{ip: strings.Split(bare, "\n")})
	const ends = 6
	// The kernel makes the address of a link that never was ready when it is.
	waits.Until(t, time.Minute, "all devices have an address of the link", func() error {
		n := 0
		for _, m := range h.addresses() {
			if m[3] == unix.RT_SCOPE_LINK && !isTentative(m) {
				n++
			}
		}
		if n < ends {
			return fmt.Errorf("%d have one", n)
		}
		return nil
	})
	furniture := m.Host()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("furnished by %+v", furniture)
		}
	})
	h.Play(furniture)
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

// Additions are routes to these by any gateway.
func Additions() (list []snapshot.Addition) {
	for _, to := range Destinations() {
		list = append(list, snapshot.Addition{Destination: to})
	}
	return list
}

// Destinations returns the destinations of the routes that commands add and remove.
func Destinations() (list []snapshot.Destination) {
	to := func(table uint32, prefixes ...string) {
		for _, prefix := range prefixes {
			list = append(list, snapshot.Destination{Prefix: netip.MustParsePrefix(prefix), Table: table})
		}
	}
	to(unix.RT_TABLE_MAIN, "0.0.0.0/0")
	for n := range prefixes {
		four := fmt.Sprintf("198.18.%d.0/24", n)
		to(unix.RT_TABLE_MAIN, four, fmt.Sprintf("fd01:%d::/64", n))
		to(300, four)
	}
	return list
}
