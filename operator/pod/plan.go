// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/allocation"
	"github.com/alioth-net/alioth/store/tenancy"
)

// verb says what is to be done about a pod.
type verb int

const (
	// leave the pod alone.
	leave verb = iota
	// refuse it, for the decision's refusal.
	refuse
	// assign it the decision's wishes, all of them or none.
	assign
	// restore addresses that it was told, which are not in the API any more, or not
	// alone: those of each of the decision's wishes by itself.
	restore
)

type decision struct {
	verb   verb
	wishes []Wish
	// surplus are addresses of interfaces that the pod is not to have.
	surplus []*store.Address
	refusal tenancy.Refusal
}

// decide plans for one pod.
func decide(tx store.ReadTx, pod *store.Pod, sources []Source) decision {
	if pod.Node == "" || pod.Terminal || pod.Deleting {
		return decision{}
	}
	if list := allocation.Attachments(pod); list != nil {
		return recheck(tx, pod, list)
	}
	wishes, refusal := wishesOf(tx, pod, sources)
	if refusal != nil {
		return decision{verb: refuse, refusal: *refusal}
	}
	return decision{verb: assign, wishes: wishes, surplus: surplus(tx, pod, wishes)}
}

// surplus lists the addresses of a pod that are of none of the interfaces.
func surplus(tx store.ReadTx, pod *store.Pod, wishes []Wish) []*store.Address {
	return slices.DeleteFunc(store.AddressesByPod(tx, pod), func(row *store.Address) bool { return has(wishes, row.Attachment) })
}

// recheck leaves a pod alone that has what it was told and nothing else,
// whatever its Network says by now. Where addresses of an attachment are missing from
// the API, they are to be claimed again as they were, and others are to go.
func recheck(tx store.ReadTx, pod *store.Pod, list []annotations.Attachment) decision {
	var told, lost []Wish
	for _, attachment := range list {
		w := again(attachment)
		told = append(told, w)
		if w.InVPC() && (missing(tx, pod, w) || len(untold(tx, pod, w)) > 0) {
			lost = append(lost, w)
		}
	}
	d := decision{verb: restore, wishes: lost, surplus: surplus(tx, pod, told)}
	if len(d.wishes) == 0 && len(d.surplus) == 0 {
		return decision{}
	}
	return d
}

// again is the wish for an attachment as the pod was told it.
func again(attachment annotations.Attachment) Wish {
	ips := allocation.IPs(attachment)
	return Wish{
		Interface: attachment.Name, AltName: attachment.AltName, Kind: attachment.Kind, Network: attachment.Network,
		Binding: Binding{VPC: attachment.VPC, Outside: attachment.Outside}, Subnet: attachment.Subnet, IPs: ips, Prefer: ips,
	}
}

// missing reports whether an address that the pod was told is not the pod's in the API.
func missing(tx store.ReadTx, pod *store.Pod, told Wish) bool {
	return slices.ContainsFunc(told.IPs, func(ip netip.Addr) bool {
		row := store.AddressByIP(tx, told.VPC, ip)
		return row == nil || !pod.Holds(row) || row.UID == ""
	})
}

// untold lists addresses of the same attachment that the pod was not told: a
// write of an operator that died arrived late.
func untold(tx store.ReadTx, pod *store.Pod, told Wish) []*store.Address {
	return slices.DeleteFunc(store.AddressesByPod(tx, pod), func(row *store.Address) bool {
		return row.Attachment != told.Interface || row.VPC == told.VPC && slices.Contains(told.IPs, row.IP)
	})
}
