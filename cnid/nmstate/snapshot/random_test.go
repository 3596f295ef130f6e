// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/randomhost"
)

func TestRestore_RandomHosts_EqualToSnapshot(t *testing.T) {
	randomhost.Worlds(t, 100, func(t *testing.T, r *rand.Rand) {
		m := randomhost.Maker{Rand: r}
		h := &host{randomhost.Furnished(t, m), t}
		before := h.Settled()
		to := randomhost.Destinations()
		a := snapshot.Area{Names: randomhost.Devices(), Made: randomhost.Virtual(), Removed: randomhost.Devices(), Routes: to, Added: randomhost.Additions()}
		image := h.take(a)
		m.Changes = true
		change := m.Change()
		defer func() {
			if t.Failed() {
				t.Logf("after %+v", change)
			}
		}()
		h.Play(change)
		if gone := h.back(image, a); len(gone) > 0 {
			t.Errorf("gone: %v", gone)
		}
		h.Is(before)
	})
}

// TestRestore_RandomHosts_ForeignAdditionsKept lets others add objects while a change is open. The additions
// do not prevent the undo, and the undo does not lose them.
func TestRestore_RandomHosts_ForeignAdditionsKept(t *testing.T) {
	randomhost.Worlds(t, 20, func(t *testing.T, r *rand.Rand) {
		m := randomhost.Maker{Rand: r}
		h := &host{randomhost.Furnished(t, m), t}
		before := h.Settled()
		to := randomhost.Destinations()
		a := snapshot.Area{
			Names: randomhost.Devices(), Made: randomhost.Virtual(), Removed: randomhost.Devices(), Routes: to, Added: randomhost.Additions(),
			Addresses: randomhost.Addresses(),
		}
		image := h.take(a)
		m.Changes = true
		change, others, losses := m.Change(), m.Others(), m.Losses()
		defer func() {
			if t.Failed() {
				t.Logf("after %+v, %+v of others, and %+v", change, others, losses)
			}
		}()
		h.Play(change)
		h.Play(others)
		added := h.Settled()
		image = image.WithOthers(h.all(snapshot.Area{}), a, 0)
		h.Play(losses) // An undo does such things too.
		if gone := h.back(image, a); len(gone) > 0 {
			t.Errorf("gone: %v", gone)
		}
		h.IsBeside(before, randomhost.IsTheirs)
		now := h.Shown()
		for _, line := range added {
			if isAddress(line) && hasRoom(before, line) && !slices.Contains(now, line) {
				t.Errorf("the undo has lost an address of others: %s", line)
			}
		}
	})
}

func isAddress(line string) bool {
	return strings.HasPrefix(line, "address ") && randomhost.IsTheirs(line)
}

// hasRoom reports whether a host had the device of an address, with IPv6 if that is one.
func hasRoom(before randomhost.Look, line string) bool {
	device, _, _ := strings.Cut(strings.TrimPrefix(line, "address "), ":")
	there, room := false, !strings.Contains(line, "fd77:")
	mtu := 0
	for _, line := range before {
		there = there || strings.HasPrefix(line, "device "+device+": ")
		if n, is := strings.CutPrefix(line, "device "+device+": mtu "); is {
			mtu, _ = strconv.Atoi(n)
		}
		room = room || strings.HasSuffix(line, "/ipv6/conf/"+device+"/disable_ipv6 0")
	}
	return there && room && (mtu >= 1280 || !strings.Contains(line, "fd77:"))
}
