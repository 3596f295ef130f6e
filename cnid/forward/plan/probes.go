// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/sound"
)

// probes adds the addresses whose connects by the kubelet go to a shadow. One
// address stands for one pod only: the oldest that has probes or hooks. The
// others were refused, see ProbeConflict. While a pod has no interface, or has lost it,
// the kubelet's probes of it are refused: another host on the node's network may have its
// address.
func (b *nodeBuilder) probes() {
	b.part.Probes, b.part.Hooks = nil, nil
	own := ownAddresses(b.tx, b.in.Config)
	servers := apiServerAddresses(b.tx, b.in.Config)
	probed, hooked := map[netip.Addr]bool{}, map[netip.Addr]bool{}
	lead := func(rec journal.Record, ip, shadow netip.Addr) {
		if own.has(ip) || !sound.IsHost(ip) {
			return // the kubelet probes a host or pod on the node's network there
		}
		if !probed[ip] {
			probed[ip] = true
			b.part.Probes = append(b.part.Probes, state.ProbeTarget{IP: ip, Shadow: shadow})
		}
		pod := store.GetPod(b.tx, rec.Pod.UID)
		if pod != nil && pod.NetworkHooks && !hooked[ip] && !slices.Contains(servers, ip) {
			hooked[ip] = true
			b.part.Hooks = append(b.part.Hooks, state.HookTarget{IP: ip, Shadow: shadow})
		}
	}
	for _, rec := range b.live {
		if isProbed(b.tx, rec) {
			for _, prefix := range rec.Addrs {
				lead(rec, prefix.Addr(), shadowOf(rec, prefix.Addr()))
			}
		}
	}
	for _, rec := range slices.Concat(b.in.Records, b.in.Removed) {
		if isProbed(b.tx, rec) {
			for _, prefix := range rec.Addrs {
				lead(rec, prefix.Addr(), netip.Addr{})
			}
		}
	}
	slices.SortFunc(b.part.Probes, func(a, b state.ProbeTarget) int { return a.IP.Compare(b.IP) })
	slices.SortFunc(b.part.Hooks, func(a, b state.HookTarget) int { return a.IP.Compare(b.IP) })
}

// isProbed reports whether the kubelet may probe the pod of a record, or call its hooks,
// under addresses in a VPC. Record.Probed covers pods that are gone from the API.
// Addresses outside of every VPC, and addresses of other CNI plugins, are on networks that
// the node itself may use.
func isProbed(tx store.ReadTx, rec journal.Record) bool {
	if !rec.Carried() {
		return false
	}
	pod := store.GetPod(tx, rec.Pod.UID)
	return rec.Probed || pod != nil && pod.NetworkProbes
}

func shadowOf(rec journal.Record, ip netip.Addr) netip.Addr {
	if ip.Is4() {
		return rec.Shadow4
	}
	return rec.Shadow6
}

// ProbeConflict explains why a pod with network probes or hooks can't have one of the
// addresses on this node, and what to do; or returns nil. Only
// records older than before count; 0 means all. Those in journal.PhaseLeaving count
// too: the kubelet may probe what has just left.
func ProbeConflict(
	tx store.ReadTx,
	records []journal.Record,
	pod *store.Pod,
	addrs []netip.Addr,
	before uint64,
) *Refusal {
	if !pod.NetworkProbes {
		return nil
	}
	for _, ip := range addrs {
		other, leaving := probedPod(tx, records, pod.UID, ip, before)
		switch {
		case other == nil:
		case leaving:
			return probeConflict(
				"IP %s was pod %s's on this node, which the kubelet may still probe for a moment; this pod gets it after that",
				ip,
				other,
			)
		default:
			return probeConflict(
				"IP %s also belongs to pod %s of another VPC on this node, which has network probes or hooks too: the kubelet"+
					" couldn't tell them apart; use exec probes and hooks in one of them, give one another IP, or keep them on different nodes",
				ip,
				other,
			)
		}
	}
	return nil
}

// ProbeRefusal explains why a pod can't have its network probes and hooks on this
// node, whatever else is there, and what to do, or returns nil. The kubelet would dial
// something of the node's for it.
func ProbeRefusal(tx store.ReadTx, cfg Config, pod *store.Pod, addrs []netip.Addr) *Refusal {
	if pod.ProbeHost != "" {
		return lasting(probeConflict(
			"a probe or hook names the host %s, which the kubelet would dial on the node's network; leave the field host away:"+
				" the pod's own address is probed, and httpGet.httpHeaders can name a virtual host",
			quote.Text(pod.ProbeHost),
		))
	}
	if !pod.NetworkProbes {
		return nil
	}
	own, servers := ownAddresses(tx, cfg), apiServerAddresses(tx, cfg)
	for _, ip := range addrs {
		switch {
		case own.has(ip):
			return lasting(probeConflict(
				"IP %s is also this node's, or in a range of the infrastructure (chart value infrastructureCIDRs), where the kubelet"+
					" has business of its own; give the pod another IP or another node, or exec probes and hooks only",
				ip,
			))
		case pod.NetworkHooks && slices.Contains(servers, ip):
			return lasting(probeConflict(
				"IP %s is also the API server's, and the kubelet's calls of a hook can't be distinguished from those of the API server;"+
					" give the pod another IP, or exec hooks only",
				ip,
			))
		}
	}
	return nil
}

func probeConflict(format string, args ...any) *Refusal {
	return refuse(v1alpha1.ProbeConflictReason, format, args...)
}

// nodesOwn are addresses under which the kubelet's connects must reach what they name.
type nodesOwn struct {
	addrs  []netip.Addr
	ranges []netip.Prefix
}

// ownAddresses returns this node's addresses, at which the kubelet probes pods on the node's
// network, and the ranges of the infrastructure. The kubelet probes no address of another node.
func ownAddresses(tx store.ReadTx, cfg Config) nodesOwn {
	own := nodesOwn{ranges: cfg.Infrastructure}
	if self := store.GetNode(tx, cfg.Node); self != nil {
		own.addrs = addressesOf(self)
	}
	return own
}

func (n nodesOwn) has(ip netip.Addr) bool {
	return slices.Contains(n.addrs, ip) ||
		slices.ContainsFunc(n.ranges, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// probedPod returns another pod of this node with network probes and the IP, and
// whether it is ending, or gone from the API and still probed. For a pod that is gone
// from the API, its record has whether it is probed.
func probedPod(
	tx store.ReadTx,
	records []journal.Record,
	uid string,
	ip netip.Addr,
	before uint64,
) (other fmt.Stringer, leaving bool) {
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
			continue // it has no allocation status
		}
		for _, attachment := range list {
			if slices.ContainsFunc(attachment.Addresses, func(p netip.Prefix) bool { return p.Addr() == ip }) {
				return pod
			}
		}
	}
	return nil
}
