// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allocation compares the allocation status of pods with the objects that only
// the operator writes, and keeps addresses of living pods whose objects are deleted.
//
// The allocation status is the text of an annotation and a condition. Tenants may be able
// to write both, so nothing is decided by them: Addresses and AttachmentClaims are the
// decision (docs/design/012).
package allocation

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// Status returns the allocation status of a pod as it is written, nil if the pod has none. The
// status is not a decision: everybody with the right to write pod statuses may have written it.
func Status(pod *store.Pod) []netif.Interface {
	if !HasStatus(pod) {
		return nil
	}
	list, err := annotations.ParseAttachments(pod.Attachments)
	if err != nil {
		return nil
	}
	return list
}

// HasStatus reports whether a pod has an allocation status, which may still be unreadable.
func HasStatus(pod *store.Pod) bool { return IsOpen(pod) && pod.Attachments != "" }

// IsOpen reports whether the operator has opened the gate of a pod: the operator does not release
// the objects of the pod any more, so its node may attach it. The readiness annotation alone opens
// nothing, because the creator of a pod may write it. The API server drops the conditions of a new
// pod, and an admission policy keeps the condition to the operator.
func IsOpen(pod *store.Pod) bool { return pod.NetworkReady && pod.Reason == v1alpha1.AttachedReason }

// Confirms reports whether the objects of the operator confirm an attachment of a pod's
// allocation status: the pod holds an address of the same domain at that interface, or has
// an AttachmentClaim for the interface in that network.
func Confirms(tx store.ReadTx, pod *store.Pod, one netif.Interface) bool {
	domain := Domain(one)
	if domain == "" {
		return false
	}
	if slices.ContainsFunc(store.AddressesByPod(tx, pod), func(row *store.Address) bool {
		return row.Attachment == one.Name && row.Domain() == domain && !row.IsHeldBack()
	}) {
		return true
	}
	network, ok := NetworkOf(one)
	return ok && slices.ContainsFunc(multinet.ClaimsByPod(tx, pod), func(claim *multinet.Claim) bool {
		return claim.Interface == one.Name && claim.Network.UID == network.UID
	})
}

// IPs returns the addresses of an attachment.
func IPs(attachment netif.Interface) []netip.Addr {
	ips := make([]netip.Addr, 0, len(attachment.Addresses))
	for _, prefix := range attachment.Addresses {
		ips = append(ips, prefix.Addr())
	}
	return ips
}

// Domain returns the domain of the addresses of an attachment, "" if they are not claimed.
func Domain(attachment netif.Interface) string {
	if network, ok := NetworkOf(attachment); ok {
		return network.Domain()
	}
	return attachment.VPC
}

// NetworkOf returns the network outside of every VPC that the addresses of an attachment are
// claimed in. It returns false for an attachment in a VPC. The annotation has no group.
func NetworkOf(attachment netif.Interface) (store.NetworkRef, bool) {
	if attachment.OutsideUID == "" {
		return store.NetworkRef{}, false
	}
	network := store.NetworkRef{UID: attachment.OutsideUID}
	switch parts := strings.Split(attachment.Outside, "/"); len(parts) {
	case 2:
		network.Kind, network.Name = parts[0], parts[1]
	case 3:
		network.Kind, network.Namespace, network.Name = parts[0], parts[1], parts[2]
	default:
		return store.NetworkRef{}, false
	}
	return network, true
}

// LeadsOutside reports whether the allocation status of a pod names a network outside of
// every VPC. It costs little for a pod without any.
func LeadsOutside(pod *store.Pod) bool { return strings.Contains(pod.Attachments, `"outsideUID"`) }

// Networks returns the networks outside of every VPC that the allocation status of a pod
// names.
func Networks(pod *store.Pod) []store.NetworkRef {
	if !LeadsOutside(pod) {
		return nil
	}
	var all []store.NetworkRef
	for _, attachment := range Status(pod) {
		if network, ok := NetworkOf(attachment); ok {
			all = append(all, network)
		}
	}
	return all
}

// Same reports whether the allocation status of a living pod has exactly these
// addresses of a domain, which is the name of a VPC or store.NetworkRef.Domain.
func Same(pod *store.Pod, domain string, ips []netip.Addr) bool {
	if pod.Deleting || pod.Terminal {
		return false
	}
	return slices.ContainsFunc(Status(pod), func(attachment netif.Interface) bool {
		return domain != "" && Domain(attachment) == domain && slices.Equal(sorted(IPs(attachment)), sorted(ips))
	})
}

func sorted(ips []netip.Addr) []netip.Addr {
	return slices.SortedFunc(slices.Values(ips), netip.Addr.Compare)
}
