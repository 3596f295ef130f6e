// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"

	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/allocation"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// verb is the next step for a pod.
type verb int

const (
	// leave the pod alone.
	leave verb = iota
	// refuse it, for the decision's refusal.
	refuse
	// wait for a change that will come soon, without a message to the pod's owner.
	wait
	// assign it the decision's desired attachments, all of them or none.
	assign
	// restore the parts of an earlier decision that the API lacks, and remove others, separately
	// for each of the decision's desired attachments.
	restore
)

type decision struct {
	verb    verb
	desired []Desired
	// surplus are addresses of interfaces that the pod should not have.
	surplus []*store.Address
	refusal tenancy.Refusal
	// rewrite reports that the desired attachments replace the allocation status, because no
	// object of the operator confirms a part of the status.
	rewrite bool
}

// isNothing reports whether there is nothing to do.
func (d decision) isNothing() bool { return d.verb == leave && len(d.surplus) == 0 }

// decide plans for one pod. Addresses and AttachmentClaims are the decision about a pod. A
// pod without them is a new one, whatever its allocation status says.
func decide(tx store.ReadTx, pod *store.Pod, sources []Source) decision {
	if pod.Node == "" || pod.Terminal || pod.Deleting {
		return decision{}
	}
	if status := recordedOf(tx, pod); status.isDecided() {
		return recheck(tx, pod, status, sources)
	}
	desired, refusal := desiredOf(tx, pod, sources)
	if refusal != nil && refusal.Reason == "" {
		return decision{verb: wait, refusal: *refusal}
	}
	if refusal != nil {
		return decision{verb: refuse, refusal: *refusal}
	}
	return decision{verb: assign, desired: desired, surplus: surplus(tx, pod, desired)}
}

// surplus lists the addresses of a pod that do not belong to any of its interfaces with addresses.
func surplus(tx store.ReadTx, pod *store.Pod, desired []Desired) []*store.Address {
	return slices.DeleteFunc(store.AddressesByPod(tx, pod), func(row *store.Address) bool {
		return row.IsHeldBack() ||
			slices.ContainsFunc(desired, func(w Desired) bool { return w.Interface == row.Attachment && w.addressed() })
	})
}

// recheck changes nothing if the pod has exactly the addresses and AttachmentClaims of its
// allocation status, even if its Network has changed. If the API lacks some objects of a known
// decision, they are claimed again unchanged, and others are released. Parts of the allocation
// status that nothing confirms, or that differ from the configuration of an object, are replaced.
// Addresses without a configuration get it.
func recheck(tx store.ReadTx, pod *store.Pod, status recordedStatus, sources []Source) decision {
	if status.has(unconfirmed) || status.altered {
		return replace(tx, pod, status, sources)
	}
	if status.isIntact() && !status.lacksConfig() && !lacksClaims(tx, pod) {
		return decision{}
	}
	var all, lost []Desired
	for _, part := range status.parts {
		all = append(all, again(pod, part.Interface))
	}
	nameAll(all)
	for i, part := range status.parts {
		if part.state == lacking {
			lost = append(lost, all[i])
		}
	}
	d := decision{verb: restore, desired: lost, surplus: surplus(tx, pod, all)}
	if len(d.surplus) > 0 {
		if desired, refusal := desiredOf(tx, pod, sources); refusal == nil && status.omits(desired, d.surplus) {
			return replace(tx, pod, status, sources)
		}
	}
	return d
}

// replace keeps the decided parts of an allocation status, and decides the other parts anew, with
// all checks of a new pod. Without the pod's present desired attachments, only lost claims of the
// decided parts are claimed again.
func replace(tx store.ReadTx, pod *store.Pod, status recordedStatus, sources []Source) decision {
	fresh, refusal := desiredOf(tx, pod, sources)
	d := decision{verb: restore, rewrite: refusal == nil}
	if refusal != nil {
		d.refusal = *refusal
	}
	for _, part := range status.parts {
		switch {
		case part.state == intact && refusal != nil:
		case part.state != unconfirmed:
			w := again(pod, part.Interface)
			w.Recorded = &part.Interface
			d.desired = append(d.desired, w)
		case refusal == nil:
			if w, ok := anew(part, fresh); ok && !has(d.desired, w.Interface) {
				d.desired = append(d.desired, w)
			}
		}
	}
	if refusal != nil {
		return d
	}
	for _, w := range fresh {
		if !has(d.desired, w.Interface) &&
			slices.ContainsFunc(status.held, func(row *store.Address) bool { return row.Attachment == w.Interface }) {
			d.desired = append(d.desired, w)
		}
	}
	nameAll(d.desired)
	d.surplus = surplus(tx, pod, d.desired)
	return d
}

// anew returns the desired attachment for a part of an allocation status that nothing confirms. It
// returns false if the pod should not have the interface. Addresses in a VPC that the operator has
// claimed for the interface stay, even if the pod would get others now.
func anew(part recorded, fresh []Desired) (Desired, bool) {
	i := slices.IndexFunc(fresh, func(w Desired) bool { return w.Interface == part.Name })
	inDomain := func(row *store.Address) bool { return row.Domain() == fresh[i].domain() }
	if i >= 0 && (len(part.held) == 0 || slices.ContainsFunc(part.held, inDomain)) {
		return fresh[i], true
	}
	if len(part.held) == 0 || part.held[0].VPC == "" {
		return Desired{}, false
	}
	row := part.held[0]
	w := Desired{
		Interface: row.Attachment, Kind: netif.KindPair, Binding: Binding{VPC: row.VPC},
		Subnet: row.Subnet, IPs: row.Set, Prefer: row.Set,
	}
	if row.External {
		w.Kind = netif.KindExternal
	}
	if row.Config != nil {
		w.AltName, w.Definition, w.NoDefaultRoute = row.Config.AltName, row.Config.Definition, row.Config.NoDefaultRoute
	}
	return w, true
}

// again returns the desired attachment for an attachment of the allocation status that is decided.
func again(pod *store.Pod, attachment netif.Interface) Desired {
	ips := allocation.IPs(attachment)
	w := Desired{
		Interface: attachment.Name, AltName: attachment.AltName, Kind: attachment.Kind, Network: attachment.Network,
		Definition: attachment.Definition, DefaultRoute: attachment.DefaultRoute, NoDefaultRoute: attachment.NoDefaultRoute,
		Binding: Binding{VPC: attachment.VPC}, Subnet: attachment.Subnet, IPs: ips, Prefer: ips,
	}
	if network, ok := allocation.NetworkOf(attachment); ok {
		w.Outside, w.Range = network, rangeOf(network, attachment)
	}
	if w.Kind == netif.KindExternal && w.Interface != v1alpha1.PodAttachment {
		w.Devices = []string{attachment.MAC}
		w.Instance = pod.Namespace + "/" + pod.Labels[multitenancyv1alpha1.PodNetworkInstanceLabel]
	}
	return w
}

// rangeOf returns the network ranges of the addresses of an attachment. The network itself may be
// gone.
func rangeOf(network store.NetworkRef, attachment netif.Interface) *ipam.NetworkRange {
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
