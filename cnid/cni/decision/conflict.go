// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"net/netip"

	"github.com/alioth-net/alioth/api/v1alpha1"
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

// refusal is a conflict. reason is the reason of its event, message the text of the event. A
// change of the store does not end a lasting refusal.
type refusal struct {
	reason, message string
	lasting         bool
}

// conflict returns the conflict of an attachment with this record, nil for none. A record
// that the journal does not have yet, with Seq 0, is compared with all others and with
// the node. Of two in the journal the later is refused: it is compared with earlier ones
// only, because the rest was checked before.
func conflict(tx store.ReadTx, p parties, pod *store.Pod, asking journal.Record) *refusal {
	ips := ipsOf(asking.Addrs)
	journaled := asking.Seq != 0
	if !journaled {
		if text := plan.ProbeRefusal(tx, p.cfg, pod, vpcAddrs(asking)); text != "" {
			return &refusal{reason: v1alpha1.ProbeConflictReason, message: text, lasting: true}
		}
	}
	if text := plan.ProbeConflict(tx, p.probed, pod, ips, asking.Seq); text != "" {
		return &refusal{reason: v1alpha1.ProbeConflictReason, message: text}
	}
	if journaled {
		if text := plan.HostPortRace(tx, p.cfg, p.attached, asking); text != "" {
			return &refusal{reason: v1alpha1.HostPortConflictReason, message: text}
		}
		return nil
	}
	if no := plan.HostPortConflict(tx, p.cfg, p.attached, asking, p.listens); no != nil {
		return &refusal{reason: no.Reason, message: no.Message, lasting: no.Lasting}
	}
	return nil
}

func ipsOf(prefixes []netip.Prefix) []netip.Addr {
	var ips []netip.Addr
	for _, prefix := range prefixes {
		ips = append(ips, prefix.Addr())
	}
	return ips
}
