// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/allocation"
	"github.com/alioth-net/alioth/store/tenancy"
)

// verb is the next step for a pod.
type verb int

const (
	// leave the pod alone.
	leave verb = iota
	// refuse it, for the decision's refusal.
	refuse
	// wait for a change that will come soon, without a word to the pod's owner.
	wait
	// assign it the decision's wishes, all of them or none.
	assign
	// restore addresses of its allocation status that the API lacks, and remove
	// others: for each of the decision's wishes by itself.
	restore
)

type decision struct {
	verb   verb
	wishes []Wish
	// surplus are addresses of interfaces that the pod should not have.
	surplus []*store.Address
	refusal tenancy.Refusal
}

// isNothing reports whether there is nothing to do.
func (d decision) isNothing() bool { return d.verb == leave && len(d.surplus) == 0 }

// decide plans for one pod.
func decide(tx store.ReadTx, pod *store.Pod, sources []Source) decision {
	if pod.Node == "" || pod.Terminal || pod.Deleting {
		return decision{}
	}
	if list := allocation.Attachments(pod); list != nil {
		return recheck(tx, pod, list)
	}
	wishes, refusal := wishesOf(tx, pod, sources)
	if refusal != nil && refusal.Reason == "" {
		return decision{verb: wait, refusal: *refusal}
	}
	if refusal != nil {
		return decision{verb: refuse, refusal: *refusal}
	}
	return decision{verb: assign, wishes: wishes, surplus: surplus(tx, pod, wishes)}
}

// surplus lists the addresses of a pod that are of none of the interfaces with addresses.
func surplus(tx store.ReadTx, pod *store.Pod, wishes []Wish) []*store.Address {
	return slices.DeleteFunc(store.AddressesByPod(tx, pod), func(row *store.Address) bool {
		return slices.ContainsFunc(wishes, func(w Wish) bool { return w.Interface == row.Attachment && w.addressed() })
	})
}

// recheck changes nothing if the pod has exactly the addresses of its allocation
// status, even if its Network has changed. If the API lacks addresses of an attachment,
// the decision is to claim them again unchanged and to release others, and likewise for
// AttachmentClaims. Addresses outside of VPCs are claimed again only for an attachment that
// is confirmed: the annotation alone could be a tenant's.
func recheck(tx store.ReadTx, pod *store.Pod, list []annotations.Attachment) decision {
	var assigned, lost []Wish
	for _, attachment := range list {
		w := again(pod, attachment)
		assigned = append(assigned, w)
		if attachment.Outside != "" && !confirmed(tx, pod, attachment) && !hasClaim(tx, pod, attachment.Name) {
			continue
		}
		if w.addressed() && (missing(tx, pod, w) || len(stray(tx, pod, w)) > 0) {
			lost = append(lost, w)
		}
	}
	d := decision{verb: restore, wishes: lost, surplus: surplus(tx, pod, assigned)}
	if len(d.wishes) == 0 && len(d.surplus) == 0 && !lacksClaims(tx, pod) {
		return decision{}
	}
	return d
}

// again is the wish for an attachment of the allocation status.
func again(pod *store.Pod, attachment annotations.Attachment) Wish {
	ips := allocation.IPs(attachment)
	w := Wish{
		Interface: attachment.Name, AltName: attachment.AltName, Kind: attachment.Kind, Network: attachment.Network,
		Binding: Binding{VPC: attachment.VPC}, Subnet: attachment.Subnet, IPs: ips, Prefer: ips,
	}
	if network, ok := allocation.NetworkOf(attachment); ok {
		w.Outside, w.Range = network, rangeOf(network, attachment)
	}
	if w.Kind == annotations.KindExternal && w.Interface != v1alpha1.PodAttachment {
		w.Devices = []string{attachment.MAC}
		w.Instance = pod.Namespace + "/" + pod.Labels[multitenancyv1alpha1.PodNetworkInstanceLabel]
	}
	return w
}

// rangeOf returns the ranges that the addresses of an attachment are from. The network
// itself may be gone.
func rangeOf(network store.NetworkRef, attachment annotations.Attachment) *ipam.NetworkRange {
	r := &ipam.NetworkRange{NetworkRef: network, SharedMAC: attachment.MAC == ""}
	for _, address := range attachment.Addresses {
		if address.Addr().Is4() {
			r.V4.Prefix = address.Masked()
		} else {
			r.V6.Prefix = address.Masked()
		}
	}
	return r
}

// missing reports whether the API lacks an address of the pod's allocation status, or
// has it for another holder.
func missing(tx store.ReadTx, pod *store.Pod, assigned Wish) bool {
	return slices.ContainsFunc(assigned.IPs, func(ip netip.Addr) bool {
		row := store.AddressByIP(tx, assigned.domain(), ip)
		return row == nil || !pod.Holds(row) || row.UID == ""
	})
}

// stray lists addresses of the same attachment that the allocation status lacks, from
// the late write of an operator that has ended.
func stray(tx store.ReadTx, pod *store.Pod, assigned Wish) []*store.Address {
	return slices.DeleteFunc(store.AddressesByPod(tx, pod), func(row *store.Address) bool {
		return row.Attachment != assigned.Interface || row.Domain() == assigned.domain() && slices.Contains(assigned.IPs, row.IP)
	})
}
