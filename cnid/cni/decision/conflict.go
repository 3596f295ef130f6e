// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"net/netip"

	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
)

// parties are the possible parties of a conflict with a pod on the node.
type parties struct {
	cfg plan.Config
	// probed are the records of all interfaces that the kubelet may probe, attached the records
	// of all attached interfaces.
	probed, attached []journal.Record
	// listens reports the ports of the node's own programs.
	listens plan.Listens
}

// conflict returns the conflict of an attachment with this record, nil for none. A record
// that the journal does not have yet, with Seq 0, is compared with all others and with
// the node. Of two in the journal the later is refused: it is compared with earlier ones
// only, because the rest was checked before.
func conflict(tx store.ReadTx, p parties, pod *store.Pod, asking journal.Record) *plan.Refusal {
	ips := ipsOf(asking.Addrs)
	journaled := asking.Seq != 0
	if !journaled {
		if refusal := plan.ProbeRefusal(tx, p.cfg, pod, vpcAddrs(asking)); refusal != nil {
			return refusal
		}
	}
	if refusal := plan.ProbeConflict(tx, p.probed, pod, ips, asking.Seq); refusal != nil {
		return refusal
	}
	if journaled {
		return plan.HostPortRace(tx, p.cfg, p.attached, asking)
	}
	return plan.HostPortConflict(tx, p.cfg, p.attached, asking, p.listens)
}

func ipsOf(prefixes []netip.Prefix) []netip.Addr {
	var ips []netip.Addr
	for _, prefix := range prefixes {
		ips = append(ips, prefix.Addr())
	}
	return ips
}
