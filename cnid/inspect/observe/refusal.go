// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"slices"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// refusal explains why a service has refused a packet, and names the remedy.
func refusal(a arrival) (means, remedy string) {
	at := slices.IndexFunc(a.state.Services, func(s state.Service) bool {
		return (s.VNI == a.vni || s.VNI == 0) && s.VIP == a.before.Dst && s.Port == a.before.Dport && s.Proto == a.proto
	})
	switch {
	case at < 0:
		return "the service does not have this port or protocol: the connection is refused at once", telemetry.ServicePort.Remedy()
	case len(a.state.Services[at].Backends) == 0:
		return "the service has no ready backend: the connection is refused at once", telemetry.NoBackend.Remedy()
	}
	return "a flow from this port leads to the same backend by another service: the connection is refused at once", telemetry.ConnConflict.Remedy()
}
