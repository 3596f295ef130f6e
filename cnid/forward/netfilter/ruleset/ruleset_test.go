// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"errors"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// small is a state with a port of the node, a frontend and a range of the default VPC.
func small() State {
	return State{
		Shadows: []netip.Prefix{netip.MustParsePrefix("169.254.64.0/18")}, NodeShadows: []netip.Addr{netip.MustParseAddr("169.254.64.1")},
		DefaultVPC: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}, TunnelPort: 4789, PodGroup: 1, PodKinds: []string{"veth"}, NodeDevice: "alnode",
		MarkMask: 0xf, SharedMark: 1, EgressMark: 2, NodeMark: 3, OpeningMark: 4, TunneledMark: 5,
		HostPorts: []HostPort{{Protocol: unix.IPPROTO_TCP, HostPort: 80, Port: 8080, Shadow: netip.MustParseAddr("169.254.64.5")}},
		Frontends: []*Frontend{{Protocol: unix.IPPROTO_TCP, IP: netip.IPv4Unspecified(), Port: 30000}},
	}
}

func TestState_ContradictoryEntry_OnlyItLeftOut(t *testing.T) {
	if err := small().Validate(); err != nil {
		t.Fatal(err)
	}
	frontend := func(change func(*Frontend)) func(*State) {
		return func(s *State) {
			f := &Frontend{Protocol: unix.IPPROTO_UDP, IP: netip.IPv4Unspecified(), Port: 30001}
			change(f)
			s.Frontends = append(s.Frontends, f)
		}
	}
	hostPort := func(change func(*HostPort)) func(*State) {
		return func(s *State) {
			p := HostPort{Protocol: unix.IPPROTO_TCP, HostPort: 81, Port: 8080, Shadow: netip.MustParseAddr("169.254.64.6")}
			change(&p)
			s.HostPorts = append([]HostPort{p}, s.HostPorts...)
		}
	}
	for name, change := range map[string]func(*State){
		"a frontend without a port":        frontend(func(f *Frontend) { f.Port = 0 }),
		"a frontend without an address":    frontend(func(f *Frontend) { f.IP = netip.Addr{} }),
		"a frontend of no protocol":        frontend(func(f *Frontend) { f.Protocol = 1 }),
		"affinity of parts of a second":    frontend(func(f *Frontend) { f.Affinity, f.VNI = time.Millisecond, 5 }),
		"affinity of no VPC":               frontend(func(f *Frontend) { f.Affinity = time.Second }),
		"too many places":                  frontend(func(f *Frontend) { f.All = make([]netip.AddrPort, MaxSlots+1) }),
		"a place of another family":        frontend(func(f *Frontend) { f.Here = []netip.AddrPort{netip.MustParseAddrPort("[fd00::1]:80")} }),
		"a frontend twice":                 frontend(func(f *Frontend) { f.Protocol, f.Port = unix.IPPROTO_TCP, 30000 }),
		"a port of the node without one":   hostPort(func(p *HostPort) { p.HostPort = 0 }),
		"a port that leads to none":        hostPort(func(p *HostPort) { p.Port = 0 }),
		"a port of the node without a pod": hostPort(func(p *HostPort) { p.Shadow = netip.Addr{} }),
		"a range with host bits":           func(s *State) { s.DefaultVPC = append(s.DefaultVPC, netip.MustParsePrefix("10.9.0.1/16")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := small()
			change(&s)
			if err := s.Validate(); !errors.Is(err, ErrInvalid) {
				t.Errorf("the state gives the error %v", err)
			}
			now, left := s.Sound()
			if err := now.Validate(); err != nil || len(left) != 1 || !reflect.DeepEqual(now, small()) {
				t.Errorf("left out: %v; the rest is %+v and gives the error %v", left, now, err)
			}
		})
	}
}
