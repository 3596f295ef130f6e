// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allocation reads what the operator told pods, and keeps it theirs while
// they live: the row of such an address stays in the store when the object
// goes, as it does when somebody deletes all Addresses or restores an older
// state of the API, until the object has been made again.
package allocation

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// Attachments returns what a pod was told, nil where it was told nothing. The
// condition is part of the status, which nobody can write when creating a pod,
// so it vouches for the annotations beside it. Only the operator writes the
// list, so what can't be read is not its own.
func Attachments(pod *store.Pod) []annotations.Attachment {
	if pod.Reason != v1alpha1.AttachedReason || !pod.NetworkReady || pod.Attachments == "" {
		return nil
	}
	list, err := annotations.ParseAttachments(pod.Attachments)
	if err != nil {
		return nil
	}
	return list
}

// IPs returns the addresses of an attachment.
func IPs(attachment annotations.Attachment) []netip.Addr {
	ips := make([]netip.Addr, 0, len(attachment.Addresses))
	for _, prefix := range attachment.Addresses {
		ips = append(ips, prefix.Addr())
	}
	return ips
}

// Same reports whether a living pod was told these addresses of a VPC, all of them and
// no others.
func Same(pod *store.Pod, vpc string, ips []netip.Addr) bool {
	if pod.Deleting || pod.Terminal {
		return false
	}
	return slices.ContainsFunc(Attachments(pod), func(attachment annotations.Attachment) bool {
		return attachment.VPC == vpc && slices.Equal(sorted(IPs(attachment)), sorted(ips))
	})
}

func sorted(ips []netip.Addr) []netip.Addr {
	return slices.SortedFunc(slices.Values(ips), netip.Addr.Compare)
}

// Put puts the row of a pod, unless there is a newer one, and keeps for it what it was
// told.
func Put(tx store.Tx, row *store.Pod) error {
	if err := store.PutPod(tx, row); err != nil {
		return err
	}
	return Hold(tx, store.GetPod(tx, row.UID))
}

// Remove removes the row of an Address object that is gone, and keeps the address for
// the living pod that was told it. It reports whether the row was there. Where the
// Address did not count for the pod that it named, it may have been in the place of
// somebody else's, so everybody is asked.
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

// Hold puts an assumed row for every address that a living pod was told and
// that nobody has. Once the pod ends, who reviews addresses forgets them.
func Hold(tx store.Tx, pod *store.Pod) error {
	if pod.Node == "" || pod.Deleting || pod.Terminal {
		return nil
	}
	for _, attachment := range Attachments(pod) {
		for _, row := range rows(pod, attachment) {
			if store.GetAddress(tx, row.Name) != nil || store.AddressByIP(tx, row.VPC, row.IP) != nil {
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
	var all []*store.Address
	set := IPs(attachment)
	for _, ip := range set {
		all = append(all, &store.Address{
			Name: v1alpha1.AddressName(attachment.VPC, ip), VPC: attachment.VPC, Subnet: attachment.Subnet,
			IP: ip, MAC: attachment.MAC, Node: pod.Node, Attachment: attachment.Name, Set: set,
			Holder: pod.AsHolder(),
		})
	}
	return all
}
