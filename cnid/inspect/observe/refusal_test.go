// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

func TestTrace_ServiceRefusal_ReasonShown(t *testing.T) {
	vip := netip.MustParseAddr("10.96.0.1")
	at := func(vni uint32, port uint16, backends ...state.Backend) state.Service {
		return state.Service{VNI: vni, VIP: vip, Port: port, Proto: state.ProtoTCP, Backends: backends}
	}
	services := []state.Service{
		at(7, 80, state.Backend{IP: netip.MustParseAddr("10.0.0.1"), Port: 80}), at(7, 81), at(0, 443),
		at(8, 82, state.Backend{IP: netip.MustParseAddr("10.0.0.1"), Port: 80}),
	}
	for _, c := range []struct {
		port  uint16
		proto uint8
		want  string
	}{
		{80, state.ProtoTCP, "another service"},
		{80, state.ProtoUDP, "does not have this port or protocol"},
		{81, state.ProtoTCP, "no ready backend"},
		{443, state.ProtoTCP, "no ready backend"},
		{82, state.ProtoTCP, "does not have this port or protocol"},
	} {
		a := arrival{vni: 7, proto: c.proto, before: telemetry.Tuple{Dst: vip, Dport: c.port}, state: state.State{Services: services}}
		if means, remedy := refusal(a); !strings.Contains(means, c.want) || remedy == "" {
			t.Errorf("port %d, protocol %d: %q, remedy %q, want %q", c.port, c.proto, means, remedy, c.want)
		}
	}
}
