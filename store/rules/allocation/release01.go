// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// This file reads the annotation alioth.dev/attachments of pods whose objects an operator of release
// 0.1 has written. That operator may still run while a newer daemon does. The file goes with the
// first release that does not follow 0.1 directly: the objects of all pods have descriptions then.

// isOfRelease01 reports whether an object of a pod has no description, and no object lists the
// interfaces of the pod. With a list, the operator adds the descriptions.
func isOfRelease01(held []*store.Address, claims []*multinet.Claim) bool {
	if len(namesOf(held, claims)) > 0 {
		return false
	}
	return slices.ContainsFunc(
		held,
		func(row *store.Address) bool { return row.VPC != "" && row.Config == nil && !row.Deleting },
	) ||
		slices.ContainsFunc(claims, func(claim *multinet.Claim) bool { return claim.Config == nil && !claim.Deleting })
}

// annotated returns the interfaces that the annotation lists, or the missing part. Addresses decide
// about interfaces in VPCs, and the annotation must agree with complete ones. AttachmentClaims
// describe the others.
func annotated(tx store.ReadTx, pod *store.Pod, held []*store.Address) (list []netif.Interface, missing string) {
	written, err := annotations.ParseAttachments(pod.Attachments)
	if err != nil || len(written) == 0 {
		return nil, fmt.Sprintf(
			"the annotation %s is unusable (%v); delete the pod to have it written anew",
			v1alpha1.AttachmentsAnnotation,
			err,
		)
	}
	for i, one := range written {
		lack := ""
		if one.Outside != "" {
			one, lack = Claimed(tx, pod, one.Name)
		} else {
			if i == 0 {
				one.Name = v1alpha1.PodAttachment
			}
			lack = disagreement(one, held)
		}
		if lack == "" {
			list = append(list, one)
		} else if missing == "" {
			missing = lack
		}
	}
	return list, missing
}

// disagreement returns the difference between an element of the annotation and the Addresses of the
// interface, "" for none, and while an Address is missing.
func disagreement(written netif.Interface, held []*store.Address) string {
	var rows []*store.Address
	for _, row := range held {
		if row.Attachment == written.Name && row.VPC != "" && !row.Deleting {
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 || len(rows) != len(rows[0].Set) {
		return ""
	}
	if what := difference(written, rows); what != "" {
		return fmt.Sprintf("annotation %s and the pod's Address objects disagree: %s", v1alpha1.AttachmentsAnnotation, what)
	}
	return ""
}

func difference(written netif.Interface, rows []*store.Address) string {
	var ips []netip.Addr
	for _, row := range rows {
		ips = append(ips, row.IP)
	}
	switch {
	case written.VPC != rows[0].VPC:
		return fmt.Sprintf("VPC %q, %q", written.VPC, rows[0].VPC)
	case !slices.Equal(sorted(IPs(written)), sorted(ips)):
		return fmt.Sprintf("addresses %v, %v", sorted(IPs(written)), sorted(ips))
	case written.MAC != rows[0].MAC:
		return fmt.Sprintf("MAC %s, %s", written.MAC, rows[0].MAC)
	case (written.Kind == netif.KindExternal) != rows[0].External:
		return fmt.Sprintf("kind %q, another CNI plugin: %t", written.Kind, rows[0].External)
	}
	return ""
}
