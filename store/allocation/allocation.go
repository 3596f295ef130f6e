// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allocation reads the allocation status of pods, and keeps their addresses
// while they live. The row of such an address stays in the store when its object is
// deleted, by hand or by a restored older state of the API, until the object exists
// again.
package allocation

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// Attachments returns the allocation status of a pod, nil if it has none. Users cannot
// write the condition when they create a pod, because it is part of the status, so it
// confirms the annotations. Only the operator writes the list, so an unreadable list
// is not the operator's.
func Attachments(pod *store.Pod) []annotations.Attachment {
	if !IsConfirmed(pod) {
		return nil
	}
	list, err := annotations.ParseAttachments(pod.Attachments)
	if err != nil {
		return nil
	}
	return list
}

// IsConfirmed reports whether the operator has confirmed the list of a pod, which may still be
// unreadable.
func IsConfirmed(pod *store.Pod) bool {
	return pod.Reason == v1alpha1.AttachedReason && pod.NetworkReady && pod.Attachments != ""
}

// IPs returns the addresses of an attachment.
func IPs(attachment annotations.Attachment) []netip.Addr {
	ips := make([]netip.Addr, 0, len(attachment.Addresses))
	for _, prefix := range attachment.Addresses {
		ips = append(ips, prefix.Addr())
	}
	return ips
}

// Domain returns the domain of the addresses of an attachment, "" if they are not claimed.
func Domain(attachment annotations.Attachment) string {
	if network, ok := NetworkOf(attachment); ok {
		return network.Domain()
	}
	return attachment.VPC
}

// NetworkOf returns the network outside of every VPC in which the addresses of an
// attachment are claimed, and false for an attachment in a VPC. The annotation has no
// group.
func NetworkOf(attachment annotations.Attachment) (store.NetworkRef, bool) {
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

// Networks returns the networks outside of every VPC to which the interfaces of a pod lead,
// by its allocation status. It costs little for a pod without any.
func Networks(pod *store.Pod) []store.NetworkRef {
	if !strings.Contains(pod.Attachments, `"outsideUID"`) {
		return nil
	}
	var all []store.NetworkRef
	for _, attachment := range Attachments(pod) {
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
	return slices.ContainsFunc(Attachments(pod), func(attachment annotations.Attachment) bool {
		return domain != "" && Domain(attachment) == domain && slices.Equal(sorted(IPs(attachment)), sorted(ips))
	})
}

func sorted(ips []netip.Addr) []netip.Addr {
	return slices.SortedFunc(slices.Values(ips), netip.Addr.Compare)
}

// Put puts the row of a pod, unless there is a newer one, and keeps the addresses of
// its allocation status.
func Put(tx store.Tx, row *store.Pod) error {
	if err := store.PutPod(tx, row); err != nil {
		return err
	}
	return Hold(tx, store.GetPod(tx, row.UID))
}

// Remove removes the row of an Address object that is gone, and keeps the address for
// the living pod whose allocation status has it. It reports whether the row was there.
// If the Address did not count for the pod that it named, it may have replaced the one
// of a different pod, so all pods are checked.
func Remove(tx store.Tx, name, uid string) (bool, error) {
	row := store.GetAddress(tx, name)
	if !store.DeleteAddress(tx, name, uid) {
		return false, nil
	}
	pod := store.GetPod(tx, row.Holder.UID)
	switch {
	case pod == nil:
		return true, nil
	case pod.Holds(row):
		return true, Hold(tx, pod)
	}
	for pod := range store.AllPods(tx) {
		if err := Hold(tx, pod); err != nil {
			return true, err
		}
	}
	return true, nil
}

// Hold puts an assumed row for every free address in the allocation status of a living
// pod. The controller of addresses deletes the rows after the pod has ended.
func Hold(tx store.Tx, pod *store.Pod) error {
	if pod.Node == "" || pod.Deleting || pod.Terminal {
		return nil
	}
	for _, attachment := range Attachments(pod) {
		for _, row := range rows(pod, attachment) {
			if store.GetAddress(tx, row.Name) != nil || store.AddressByIP(tx, row.Domain(), row.IP) != nil {
				continue
			}
			if err := store.AssumeAddress(tx, row); err != nil {
				return err
			}
		}
	}
	return nil
}

func rows(pod *store.Pod, attachment annotations.Attachment) []*store.Address {
	domain := Domain(attachment)
	if domain == "" {
		return nil
	}
	var all []*store.Address
	set := IPs(attachment)
	for _, ip := range set {
		row := &store.Address{
			Name: v1alpha1.AddressName(domain, ip), IP: ip, MAC: attachment.MAC, Node: pod.Node,
			Attachment: attachment.Name, Set: set, Holder: pod.AsHolder(), External: attachment.Kind == annotations.KindExternal,
		}
		if network, ok := NetworkOf(attachment); ok {
			row.Network = network
		} else {
			row.VPC, row.Subnet = attachment.VPC, attachment.Subnet
		}
		all = append(all, row)
	}
	return all
}
