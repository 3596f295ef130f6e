// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/allocation"
)

// state is the state of a part of an allocation status, by the operator's own objects.
type state int

const (
	// unconfirmed: no object confirms it, or the objects contradict it.
	unconfirmed state = iota
	// lacking: the part is decided, and some of its objects are missing, or there are others.
	lacking
	// intact: its objects are complete.
	intact
)

// recorded is an attachment of an allocation status.
type recorded struct {
	netif.Interface
	state state
	// held are the addresses that count for the pod at the interface.
	held []*store.Address
}

// recordedStatus is the allocation status of a pod, compared with the objects of the operator.
type recordedStatus struct {
	parts []recorded
	// held are the addresses of the pod's interfaces.
	held []*store.Address
	// altered reports that the annotation has another order or configuration of interfaces than the
	// objects. The parts have the order and configuration of the objects.
	altered bool
}

// recordedOf compares the allocation status of a pod. It is empty for a pod that has none.
func recordedOf(tx store.ReadTx, pod *store.Pod) recordedStatus {
	list := allocation.Status(pod)
	if len(list) == 0 {
		return recordedStatus{}
	}
	held := slices.DeleteFunc(store.AddressesByPod(tx, pod), (*store.Address).IsHeldBack)
	status := recordedStatus{parts: make([]recorded, 0, len(list)), held: held}
	var claimed map[string]*multinet.Claim
	if allocation.LeadsOutside(pod) {
		claimed = claimedInterfaces(tx, pod)
	}
	for _, attachment := range list {
		part := recorded{Interface: attachment}
		for _, row := range status.held {
			if row.Attachment == attachment.Name {
				part.held = append(part.held, row)
			}
		}
		if !status.names(attachment.Name) { // of two parts with one name only one can be true
			part.state = stateOf(tx, pod, part, claimed)
		}
		status.parts = append(status.parts, part)
	}
	status.correct(claimed[v1alpha1.PodAttachment])
	return status
}

// correct gives the parts the order and configuration that the objects have. first is the
// AttachmentClaim of the first interface, nil for none.
func (s *recordedStatus) correct(first *multinet.Claim) {
	var order []string
	if first != nil {
		order = first.Interfaces
	}
	for i, part := range s.parts {
		for _, row := range part.held {
			if row.Config != nil && part.Outside == "" && part.VPCConfig() != *row.Config {
				s.parts[i].SetVPCConfig(*row.Config)
				s.altered = true
			}
			if part.Name != v1alpha1.PodAttachment || len(row.Interfaces) == 0 {
				continue
			}
			s.altered = s.altered || len(order) > 0 && !slices.Equal(order, row.Interfaces)
			order = row.Interfaces
		}
	}
	if len(order) > 0 && !s.hasAll(order) {
		s.altered = true
		return
	}
	byOrder := func(a, b recorded) int { return cmp.Compare(place(order, a.Name), place(order, b.Name)) }
	if len(order) > 0 && !slices.IsSortedFunc(s.parts, byOrder) {
		slices.SortStableFunc(s.parts, byOrder)
		s.altered = true
	}
}

// hasAll reports whether the parts have exactly these names. The objects of another decision, or of a
// mistake, list other names.
func (s *recordedStatus) hasAll(names []string) bool {
	return len(names) == len(s.parts) &&
		!slices.ContainsFunc(s.parts, func(part recorded) bool { return !slices.Contains(names, part.Name) })
}

// place returns the index of a name in a list, or a number behind all of them.
func place(list []string, name string) int {
	if i := slices.Index(list, name); i >= 0 {
		return i
	}
	return len(list)
}

// claimedInterfaces returns the AttachmentClaims, which only the operator writes, of the interfaces
// in the annotation of a pod.
func claimedInterfaces(tx store.ReadTx, pod *store.Pod) map[string]*multinet.Claim {
	list, err := annotations.ParseAttachmentsHashed(pod.Attachments)
	if err != nil {
		return nil
	}
	all := map[string]*multinet.Claim{}
	for _, element := range list {
		if row, ok := attachmentRow(element, nil); ok {
			if held := claim.AttachmentOf(tx, pod, row); held != nil {
				all[element.Name] = held
			}
		}
	}
	return all
}

// stateOf compares a part with the addresses of its interface, and with the AttachmentClaim
// if it leads outside of every VPC. An interface in a VPC has addresses.
func stateOf(tx store.ReadTx, pod *store.Pod, part recorded, claimed map[string]*multinet.Claim) state {
	ips := allocation.IPs(part.Interface)
	switch {
	case part.Outside != "" && claimed[part.Name] == nil, part.Outside == "" && len(ips) == 0:
		return unconfirmed
	case complete(tx, pod, part, ips):
		return intact
	case part.Outside != "" || part.names(ips):
		return lacking
	}
	return unconfirmed
}

// complete reports whether an interface holds exactly these addresses in the API.
func complete(tx store.ReadTx, pod *store.Pod, part recorded, ips []netip.Addr) bool {
	domain := allocation.Domain(part.Interface)
	for _, ip := range ips {
		if row := store.AddressByIP(tx, domain, ip); row == nil || row.UID == "" || row.Attachment != part.Name ||
			!pod.Holds(row) {
			return false
		}
	}
	return len(part.held) == len(ips)
}

// names reports whether one of the addresses of the interface names these as its set: a
// single Address shows the whole decision. A row without an object is a decision if the
// operator keeps it for the pod.
func (p recorded) names(ips []netip.Addr) bool {
	domain := allocation.Domain(p.Interface)
	return slices.ContainsFunc(p.held, func(row *store.Address) bool {
		return isDecision(row) && row.Domain() == domain && slices.Equal(row.Set, ips)
	})
}

// isDecision reports whether a row shows a decision of the operator about its pod, and not a claim
// in progress.
func isDecision(row *store.Address) bool { return row.UID != "" || row.Kept }

// isDecided reports whether any object of the operator shows that the pod has been decided.
func (s recordedStatus) isDecided() bool {
	return len(s.parts) > 0 && (slices.ContainsFunc(s.held, isDecision) ||
		slices.ContainsFunc(s.parts, func(part recorded) bool { return part.Outside != "" && part.state != unconfirmed }))
}

// isIntact reports whether the pod has exactly the addresses of its parts, all in the API.
func (s recordedStatus) isIntact() bool {
	held := 0
	for _, part := range s.parts {
		if part.state != intact {
			return false
		}
		held += len(part.held)
	}
	return held == len(s.held)
}

// lacksConfig reports whether an address has no configuration for its node.
func (s recordedStatus) lacksConfig() bool { return slices.ContainsFunc(s.held, claim.LacksConfig) }

// has reports whether a part is in a state.
func (s recordedStatus) has(what state) bool {
	return slices.ContainsFunc(s.parts, func(part recorded) bool { return part.state == what })
}

// names reports whether the allocation status has an interface.
func (s recordedStatus) names(name string) bool {
	return slices.ContainsFunc(s.parts, func(part recorded) bool { return part.Name == name })
}

// omits reports whether an interface that the pod should have is not in its allocation
// status, although the pod has one of the addresses for it.
func (s recordedStatus) omits(desired []Desired, addresses []*store.Address) bool {
	return slices.ContainsFunc(addresses, func(row *store.Address) bool {
		return !s.names(row.Attachment) &&
			slices.ContainsFunc(desired, func(w Desired) bool {
				return w.Interface == row.Attachment && w.domain() == row.Domain() && w.addressed()
			})
	})
}
