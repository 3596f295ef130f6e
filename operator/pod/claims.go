// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"net/netip"
	"reflect"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/allocation"
	"github.com/alioth-net/alioth/store/multinet"
)

// attachmentRows returns the AttachmentClaims for the text of an allocation status: one
// for each element outside of every VPC, with the hash of this text. Nodes attach the pod
// to such a network only if a claim has the element's hash.
func attachmentRows(text string) ([]claim.AttachmentRow, error) {
	list, err := annotations.ParseAttachmentsHashed(text)
	if err != nil {
		return nil, err
	}
	var rows []claim.AttachmentRow
	for _, element := range list {
		if row, ok := attachmentRow(element); ok {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// attachmentRow returns the AttachmentClaim for an element of an allocation status, and
// false for one without a network outside of every VPC.
func attachmentRow(element annotations.HashedAttachment) (claim.AttachmentRow, bool) {
	network, ok := allocation.NetworkOf(element.Attachment)
	row := claim.AttachmentRow{Interface: element.Name, Driver: element.Kind, Network: network, ConfigHash: element.Hash}
	for _, address := range element.Addresses {
		row.Addresses = append(row.Addresses, address.String())
	}
	return row, ok
}

// rowsToKeep returns the AttachmentClaims that a pod with an allocation status should have.
// The operator wrote the annotation, but a tenant may have changed it since. So a claim of
// exactly this element stays, and a lost one is written again only if the element is
// confirmed.
func rowsToKeep(tx store.ReadTx, pod *store.Pod) ([]claim.AttachmentRow, error) {
	list, err := annotations.ParseAttachmentsHashed(pod.Attachments)
	if err != nil {
		return nil, err
	}
	var rows []claim.AttachmentRow
	for _, element := range list {
		row, ok := attachmentRow(element)
		if ok && (claim.AttachmentClaimed(tx, pod, row) || confirmed(tx, pod, element.Attachment)) {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// confirmed reports whether a network outside of every VPC, as it is now, gives the pod an
// interface such as the attachment: of its driver, on its device and with its number.
// Addresses are claims of their own, and routes and rules concern the pod alone.
func confirmed(tx store.ReadTx, pod *store.Pod, attachment annotations.Attachment) bool {
	reference, ok := allocation.NetworkOf(attachment)
	// What CNI plugins would run is not to be seen in a network: a claim alone confirms it.
	if !ok || attachment.Delegate != nil || attachment.Kind == annotations.KindDelegate {
		return false
	}
	net := multinet.ByDomain(tx, reference.Domain())
	if net == nil || net.Reference().Path() != attachment.Outside || !net.Admits(pod.Namespace) || net.Type != attachment.Kind {
		return false
	}
	outside := func(address netip.Prefix) bool {
		return !net.V4.Prefix.Contains(address.Addr()) && !net.V6.Prefix.Contains(address.Addr())
	}
	link := attachment.Link
	return !slices.ContainsFunc(attachment.Addresses, outside) && link != nil && link.Parent == net.HostDevice && link.VLAN == net.VLAN && link.VXLAN == net.VXLAN && link.Mode == "" &&
		confirmedDevice(net, attachment)
}

// confirmedDevice reports whether a network gives an interface its pool of devices and
// their settings. Settings of a definition, and an Ethernet address that the device lets
// the pod send with, are not to be seen in a network: a claim alone confirms them.
func confirmedDevice(net *multinet.Network, attachment annotations.Attachment) bool {
	link := attachment.Link
	if net.Type != multinet.TypeSRIOV {
		return link.Pool == "" && link.VF == nil
	}
	return link.Pool == net.DevicePool && link.VF != nil && reflect.DeepEqual(*link.VF, annotations.VF(net.VF)) && attachment.MAC == ""
}

// hasClaim reports whether an AttachmentClaim, which only the operator writes, confirms the
// element of an interface.
func hasClaim(tx store.ReadTx, pod *store.Pod, name string) bool {
	list, err := annotations.ParseAttachmentsHashed(pod.Attachments)
	if err != nil {
		return false
	}
	for _, element := range list {
		if element.Name == name {
			row, ok := attachmentRow(element)
			return ok && claim.AttachmentClaimed(tx, pod, row)
		}
	}
	return false
}

// lacksClaims reports whether a pod with an allocation status has other AttachmentClaims
// than it should. It costs little for a pod in VPCs alone.
func lacksClaims(tx store.ReadTx, pod *store.Pod) bool {
	if len(allocation.Networks(pod)) == 0 {
		return len(multinet.ClaimsNaming(tx, pod.UID)) > 0
	}
	rows, err := rowsToKeep(tx, pod)
	return err == nil && !claim.AttachmentsClaimed(tx, pod, rows)
}
