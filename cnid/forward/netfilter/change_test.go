// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/test/soak"
)

// TestFrontends_IncrementalChange_EqualsFullApply changes few frontends that share much, and looks
// whether anything is left to be applied.
func TestFrontends_IncrementalChange_EqualsFullApply(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	some := func(list ...string) (out []netip.AddrPort) {
		for _, place := range places(list...) {
			if random.IntN(2) == 0 {
				out = append(out, place)
			}
		}
		return out
	}
	ranges := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.0/24")}
	frontend := func() ruleset.Frontend {
		f := ruleset.Frontend{
			IP: netip.IPv4Unspecified(), Protocol: []uint8{unix.IPPROTO_UDP, unix.IPPROTO_TCP}[random.IntN(2)], Port: uint16(30000 + random.IntN(2)),
			Local: random.IntN(2) == 0, Hidden: ranges[:random.IntN(3)],
		}
		if random.IntN(2) == 0 {
			f.Affinity, f.VNI = time.Duration(1+random.IntN(2))*time.Hour, uint32(vniA+random.IntN(2))
		}
		if random.IntN(2) == 0 {
			f.IP, f.Sources = netip.MustParseAddr(externalAddress), ranges[:random.IntN(3)]
		}
		f.All, f.Here = some("169.254.64.5:80", "169.254.64.6:80", "10.244.0.9:30000"), some("169.254.64.5:80", "169.254.64.7:80")
		f.Own = some("169.254.64.5:80", "192.0.2.9:30000")
		return f
	}
	testnet.In(t, testnet.New(t), func() error {
		var table Table
		last, all := testState(), []ruleset.Frontend(nil)
		if _, err := table.Apply(last); err != nil {
			return err
		}
		for step := range soak.Or(t, 600, 20) {
			next := last
			for range 1 + random.IntN(2) {
				if len(all) > 0 && random.IntN(3) == 0 {
					all = all[1:]
				}
				all = append([]ruleset.Frontend{frontend()}, all...)
			}
			next.Frontends = inOrder(all...)
			if err := table.Change(next); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
			if replaced, err := Apply(next); err != nil || replaced {
				return fmt.Errorf("step %d: there was something left to be applied: %v, %w", step, replaced, err)
			}
			counted := uses{}
			if counted.count(next.Frontends, 1); !maps.Equal(counted, table.uses) {
				return fmt.Errorf("step %d: in use is counted %v, and known %v", step, counted, table.uses)
			}
			last = next
		}
		return nil
	})
}

// TestTable_ChangeWithoutKnownState_Refused has the daemon read first wherever it does not know.
func TestTable_ChangeWithoutKnownState_Refused(t *testing.T) {
	testnet.In(t, testnet.New(t), func() error {
		var table Table
		s := testState()
		if err := table.Change(s); !errors.Is(err, errNotHeld) {
			t.Errorf("a change before the first Apply: %v", err)
		}
		if _, err := table.Apply(s); err != nil {
			return err
		}
		other := s
		other.TunnelPort++
		if err := table.Change(other); !errors.Is(err, errNotHeld) {
			t.Errorf("a change of more than frontends: %v", err)
		}
		s.Frontends = inOrder(nodePort("0.0.0.0", nil, nil))
		s.Frontends = append(s.Frontends, s.Frontends...)
		if _, err := table.Apply(s); err == nil {
			t.Error("two frontends of one port are applied")
		}
		if err := table.Change(testState()); !errors.Is(err, errNotHeld) {
			t.Errorf("a change after a failure: %v", err)
		}
		return nil
	})
}
