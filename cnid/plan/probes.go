// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/store"
)

// probes adds the addresses whose connects by the kubelet go to a shadow. One
// address stands for one pod only: the oldest that has probes or hooks. The
// others were refused, see ProbeConflict.
func (b *nodeBuilder) probes() {
	taken := map[netip.Addr]bool{}
	unprobed := unprobedAddresses(b.tx, b.in.Config)
	for _, rec := range b.live {
		pod := store.GetPod(b.tx, rec.Pod.UID)
		if pod == nil || !pod.NetworkProbes {
			continue
		}
		for _, prefix := range rec.Addrs {
			ip, shadow := prefix.Addr(), rec.Shadow6
			if ip.Is4() {
				shadow = rec.Shadow4
			}
			if !shadow.IsValid() || taken[ip] || slices.Contains(unprobed, ip) {
				continue
			}
			taken[ip] = true
			b.part.Probes = append(b.part.Probes, datapath.ProbeTarget{IP: ip, Shadow: shadow})
			if slices.Contains(b.reserved, ip) {
				continue // a hook carries no mark of the kubelet's, so any connect of the node's would be taken for it
			}
			for _, port := range pod.HookPorts {
				b.part.Hooks = append(b.part.Hooks, datapath.HookTarget{IP: ip, Port: port, Shadow: shadow})
			}
		}
	}
}

// ProbeConflict says why a pod with network probes or hooks can't have one of
// the addresses on this node, and what to do; or "" when nothing is in the
// way. Only records older than before count; 0 means all. Those in
// journal.PhaseLeaving count too: the kubelet may probe what has just left.
func ProbeConflict(tx store.ReadTx, records []journal.Record, pod *store.Pod, addrs []netip.Addr, before uint64) string {
	if !pod.NetworkProbes {
		return ""
	}
	for _, ip := range addrs {
		other, leaving := probedPod(tx, records, pod.UID, ip, before)
		switch {
		case other == nil:
		case leaving:
			return fmt.Sprintf("IP %s was pod %s's on this node, which the kubelet may still probe for a moment; this pod gets it after that", ip, other)
		default:
			return fmt.Sprintf("IP %s also belongs to pod %s of another VPC on this node, which has network probes or hooks too: the kubelet"+
				" couldn't tell them apart; use exec probes and hooks in one of them, give one another IP, or keep them on different nodes",
				ip, other)
		}
	}
	return ""
}

// ProbeWarning says that a pod's network probes and hooks won't reach it,
// because an address of its own is one that the node itself must reach; or "".
func ProbeWarning(tx store.ReadTx, cfg Config, pod *store.Pod, addrs []netip.Addr) string {
	if !pod.NetworkProbes {
		return ""
	}
	unprobed, reserved := unprobedAddresses(tx, cfg), ReservedAddresses(tx, cfg)
	for _, ip := range addrs {
		switch {
		case slices.Contains(unprobed, ip):
			return fmt.Sprintf("IP %s is also the API server's or this node's, so the kubelet's network probes and hooks of this pod end there"+
				" and not at the pod; give the pod another IP, or exec probes and hooks only", ip)
		case len(pod.HookPorts) > 0 && slices.Contains(reserved, ip):
			return fmt.Sprintf("IP %s is also a node's, so the kubelet's network hooks of this pod end there and not at the pod;"+
				" give the pod another IP, or exec hooks only", ip)
		}
	}
	return ""
}

// probedPod returns another pod of this node with network probes and the IP, and
// whether it is on its way out, or gone from the API and probed all the same.
// What a record says of probes holds when the API knows the pod no more.
func probedPod(tx store.ReadTx, records []journal.Record, uid string, ip netip.Addr, before uint64) (other fmt.Stringer, leaving bool) {
	for _, rec := range records {
		if rec.Pod.UID == uid || before != 0 && rec.Seq >= before {
			continue
		}
		if !slices.ContainsFunc(rec.Addrs, func(p netip.Prefix) bool { return p.Addr() == ip }) {
			continue
		}
		pod := store.GetPod(tx, rec.Pod.UID)
		if rec.Probed || rec.Phase != journal.PhaseLeaving && pod != nil && pod.NetworkProbes {
			return rec.Pod, rec.Phase == journal.PhaseLeaving || pod == nil
		}
	}
	if pod := leavingPod(tx, uid, ip); pod != nil {
		return journal.Pod{Namespace: pod.Namespace, Name: pod.Name}, true
	}
	return nil, false
}

// leavingPod returns another pod of the same node with network probes and the
// IP that is being deleted. The kubelet probes it until after its sandbox is
// gone, which is when nothing else here speaks of it any more.
func leavingPod(tx store.ReadTx, uid string, ip netip.Addr) *store.Pod {
	self := store.GetPod(tx, uid)
	if self == nil {
		return nil
	}
	for _, pod := range store.PodsByNode(tx, self.Node) {
		if pod.UID == uid || !pod.Deleting || !pod.NetworkProbes {
			continue
		}
		list, err := annotations.ParseAttachments(pod.Attachments)
		if err != nil {
			continue // it was never told an address
		}
		for _, attachment := range list {
			if slices.ContainsFunc(attachment.Addresses, func(p netip.Prefix) bool { return p.Addr() == ip }) {
				return pod
			}
		}
	}
	return nil
}
