// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/allocation"
)

// attachmentRows returns the AttachmentClaims for the text of an allocation status: one
// for each element outside of every VPC, with the hash of this text. Nodes attach the pod
// to such a network only if a claim has the element's hash.
func attachmentRows(text string) ([]claim.AttachmentRow, error) {
	list, err := annotations.ParseAttachmentsHashed(text)
	if err != nil {
		return nil, err
	}
	names := namesOf(list)
	var rows []claim.AttachmentRow
	for _, element := range list {
		if row, ok := attachmentRow(element, names); ok {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// namesOf lists the names of the interfaces of an allocation status, the requested one first.
func namesOf(list []annotations.Hashed) []string {
	names := make([]string, 0, len(list))
	for _, element := range list {
		names = append(names, element.Name)
	}
	return claim.FirstInFront(names)
}

// attachmentRow returns the AttachmentClaim for an element of an allocation status, and
// false for one without a network outside of every VPC.
func attachmentRow(element annotations.Hashed, names []string) (claim.AttachmentRow, bool) {
	network, ok := allocation.NetworkOf(element.Interface)
	row := claim.AttachmentRow{
		Interface:  element.Name,
		Driver:     element.Kind,
		Network:    network,
		Config:     element.Interface,
		ConfigHash: element.Hash,
	}
	if element.Name == v1alpha1.PodAttachment {
		row.Interfaces = names
	}
	for _, address := range element.Addresses {
		row.Addresses = append(row.Addresses, address.String())
	}
	return row, ok
}

// rowsToKeep returns the AttachmentClaims that a pod with an allocation status should have: one for
// each element of the annotation, and no others. A lost claim is decided anew, because whoever may
// write the status of pods may have written the element.
func rowsToKeep(tx store.ReadTx, pod *store.Pod) ([]claim.AttachmentRow, error) {
	list, err := annotations.ParseAttachmentsHashed(pod.Attachments)
	if err != nil {
		return nil, err
	}
	names := namesOf(list)
	var rows []claim.AttachmentRow
	for _, element := range list {
		row, ok := attachmentRow(element, names)
		if !ok {
			continue
		}
		if held := claim.AttachmentOf(tx, pod, row); held != nil {
			if len(held.Interfaces) > 0 {
				row.Interfaces = held.Interfaces
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// lacksClaims reports whether a pod with an allocation status has other AttachmentClaims
// than it should. It costs little for a pod in VPCs alone.
func lacksClaims(tx store.ReadTx, pod *store.Pod) bool {
	if !allocation.LeadsOutside(pod) {
		return len(multinet.ClaimsNaming(tx, pod.UID)) > 0
	}
	rows, err := rowsToKeep(tx, pod)
	return err == nil && !claim.AttachmentsClaimed(tx, pod, rows)
}
