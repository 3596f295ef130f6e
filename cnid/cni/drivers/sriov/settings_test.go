// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sriov

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// adapterOf is a physical function with settings, which notes requests.
type adapterOf struct {
	settings
	asked []string
	// refuses has errors by the first word of a request.
	refuses map[string]error
}

func (a *adapterOf) ask(word string, value any, set func()) error {
	a.asked = append(a.asked, fmt.Sprint(word, " ", value))
	if err := a.refuses[word]; err != nil {
		return err
	}
	set()
	return nil
}

func (a *adapterOf) setVLAN(vlan, qos, proto int) error {
	return a.ask("vlan", []int{vlan, qos, proto}, func() { a.VLAN, a.QoS, a.Proto = vlan, qos, proto })
}

func (a *adapterOf) setMAC(mac net.HardwareAddr) error {
	return a.ask("mac", mac, func() { a.MAC = mac })
}

func (a *adapterOf) setRate(lowest, highest uint32) error {
	return a.ask("rate", []uint32{lowest, highest}, func() { a.MinTxRate, a.MaxTxRate = lowest, highest })
}

func (a *adapterOf) setSpoofCheck(on bool) error {
	return a.ask("spoofchk", on, func() { a.SpoofCheck = on })
}

func (a *adapterOf) setTrust(on bool) error {
	return a.ask("trust", on, func() {
		if a.Trust = 0; on {
			a.Trust = 1
		}
	})
}

func (a *adapterOf) setLinkState(state uint32) error {
	return a.ask("link", state, func() { a.LinkState = state })
}

var (
	zeroMAC = net.HardwareAddr{0, 0, 0, 0, 0, 0}
	podMAC  = net.HardwareAddr{2, 0, 0, 0, 0, 7}
)

// fresh returns the settings of a VF that nobody has used.
func fresh() settings { return settings{MAC: zeroMAC, Proto: unix.ETH_P_8021Q, SpoofCheck: true} }

func TestSRIOV_Settings_RequestedOfAdapter(t *testing.T) {
	rate, none := 100, 0
	for _, tc := range []struct {
		name    string
		now     func(*settings)
		vlan    uint32
		vf      netif.VF
		refuses map[string]error
		want    []string
		says    string
	}{
		{name: "address and check always", vf: netif.VF{}, want: []string{"mac 02:00:00:00:00:07", "spoofchk true"}},
		{name: "also where they seem to be there", now: func(s *settings) { s.MAC = podMAC }, vf: netif.VF{}, want: []string{"mac 02:00:00:00:00:07", "spoofchk true"}},
		{
			name: "all", vlan: 7, vf: netif.VF{QoS: new(3), Proto: "802.1ad", Trust: netif.On, LinkState: "enable", MinTxRate: &none, MaxTxRate: &rate, SpoofCheck: netif.Off},
			want: []string{"vlan [7 3 34984]", "mac 02:00:00:00:00:07", "rate [0 100]", "spoofchk false", "trust true", "link 1"},
		},
		{name: "what is not given stays", now: func(s *settings) { s.LinkState, s.MaxTxRate = 2, 9 }, vf: netif.VF{}, want: []string{"mac 02:00:00:00:00:07", "spoofchk true"}},
		{
			name: "a VLAN and trust of somebody else end", now: func(s *settings) { s.VLAN, s.QoS, s.Trust = 9, 1, 1 }, vf: netif.VF{},
			want: []string{"vlan [0 0 33024]", "mac 02:00:00:00:00:07", "trust false", "spoofchk true"},
		},
		{name: "a driver without trust", now: func(s *settings) { s.Trust = unknown }, vf: netif.VF{}, want: []string{"mac 02:00:00:00:00:07", "spoofchk true"}},
		{
			name: "a driver without the check", vf: netif.VF{}, refuses: map[string]error{"spoofchk": unix.EOPNOTSUPP},
			want: []string{"mac 02:00:00:00:00:07", "spoofchk true"}, says: "can't set spoofchk on: operation not supported",
		},
		{
			name: "a driver without the check, which is off", vf: netif.VF{LinkState: "enable", SpoofCheck: netif.Off}, refuses: map[string]error{"spoofchk": unix.EOPNOTSUPP},
			want: []string{"mac 02:00:00:00:00:07", "spoofchk false", "link 1"},
		},
		{
			name: "the first error ends it", vlan: 7, vf: netif.VF{MinTxRate: &rate}, refuses: map[string]error{"rate": unix.EINVAL},
			want: []string{"vlan [7 0 33024]", "mac 02:00:00:00:00:07", "rate [100 0]"}, says: "can't set min_tx_rate 100, max_tx_rate 0: invalid argument",
		},
		{
			name: "a link state", vf: netif.VF{LinkState: "disable"}, refuses: map[string]error{"link": unix.EOPNOTSUPP},
			want: []string{"mac 02:00:00:00:00:07", "link 2"}, says: "can't set link_state disable",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := &adapterOf{settings: fresh(), refuses: tc.refuses}
			if tc.now != nil {
				tc.now(&a.settings)
			}
			before := a.settings
			want := wanted(before, ifdriver.Spec{MAC: podMAC, Config: netif.Config{VLAN: tc.vlan, VF: &tc.vf}})
			err := apply(a, want, firm(before, want))
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %q", err, tc.says)
			}
			if diff := cmp.Diff(tc.want, a.asked); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if difference := compare(a.settings, want); err == nil && difference != "" {
				t.Errorf("afterwards the difference is %q", difference)
			}
			if err := restore(a, a.settings, before); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(before, a.settings); diff != "" {
				t.Errorf("restored (-before +after):\n%s", diff)
			}
		})
	}
}

func TestSRIOVRestore_OneError_Continues(t *testing.T) {
	a := &adapterOf{settings: settings{MAC: podMAC, VLAN: 7, Proto: unix.ETH_P_8021Q, Trust: 1}, refuses: map[string]error{"mac": unix.EBUSY, "vlan": unix.EIO}}
	err := restore(a, a.settings, fresh())
	if !errors.Is(err, unix.EBUSY) || !errors.Is(err, unix.EIO) || a.Trust != 0 || !a.SpoofCheck {
		t.Errorf("got %v, and %+v", err, a.settings)
	}
}

// TestSRIOV_AnyRequestFails_NothingHalfDone has random settings before and after, and an
// adapter that refuses random requests once.
func TestSRIOV_AnyRequestFails_NothingHalfDone(t *testing.T) {
	some := func() settings {
		return settings{
			MAC: net.HardwareAddr{2, 0, 0, 0, 0, byte(rand.N(3))}, VLAN: rand.N(3), QoS: rand.N(2), Proto: unix.ETH_P_8021Q, SpoofCheck: rand.N(2) == 0,
			Trust: rand.N(uint32(2)), LinkState: rand.N(uint32(3)), MinTxRate: rand.N(uint32(2)), MaxTxRate: rand.N(uint32(2)),
		}
	}
	for range 5000 {
		before, want := some(), some()
		a := &adapterOf{settings: before, refuses: map[string]error{}}
		for _, word := range []string{"vlan", "mac", "rate", "spoofchk", "trust", "link"} {
			if rand.N(6) == 0 {
				a.refuses[word] = unix.EINVAL
			}
		}
		if err := apply(a, want, firm(before, want)); err == nil && compare(a.settings, want) != "" {
			t.Fatalf("%+v became %+v without an error, want %+v", before, a.settings, want)
		}
		a.refuses = nil
		if err := restore(a, a.settings, before); err != nil || compare(a.settings, before) != "" {
			t.Fatalf("%+v became %+v, %v", before, a.settings, err)
		}
	}
}
