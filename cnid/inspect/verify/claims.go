// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rules/allocation"
	"github.com/alioth-net/alioth/store/rules/replies"
)

// Kinds of differences within the API.
const (
	// ObjectRefused: an object is inconsistent, or contradicts another one.
	ObjectRefused Kind = "ObjectRefused"
	// VNIUnclaimed: a VPC has a VNI that it has not claimed.
	VNIUnclaimed Kind = "VNIUnclaimed"
	// VNILeft: a VNI is claimed for a VPC that is gone, and the claim waits for no
	// node.
	VNILeft Kind = "VNILeft"
	// AddressLeft: the holder of an address is gone.
	AddressLeft Kind = "AddressLeft"
	// AddressWaits: an address is held by a pod that is gone from the API but may
	// still run.
	AddressWaits Kind = "AddressWaits"
	// AddressMisplaced: an address names another node than its pod.
	AddressMisplaced Kind = "AddressMisplaced"
	// AddressSetBroken: an attachment lacks one of its addresses.
	AddressSetBroken Kind = "AddressSetBroken"
	// AddressOutside: an address lies in no range of its subnet.
	AddressOutside Kind = "AddressOutside"
	// AddressMissing: a pod uses an address that is not claimed.
	AddressMissing Kind = "AddressMissing"
	// AnnotationDiffers: a pod's allocation status differs from its claims.
	AnnotationDiffers Kind = "AnnotationDiffers"
	// PodIPDiffers: the kubelet reports other addresses than were claimed.
	PodIPDiffers Kind = "PodIPDiffers"
	// NodeAddressMissing: a node has no address in the default VPC.
	NodeAddressMissing Kind = "NodeAddressMissing"
)

// Remedies that several kinds have in common.
const (
	seeOperator = "see the log of alioth-operator, which should have repaired it"
	recreatePod = "delete and recreate the pod"
)

// vnis compares VPCs with the claims of their VNIs.
func (c *comparison) vnis() {
	for _, vpc := range store.ListVPCs(c.tx) {
		if vpc.VNI == 0 {
			continue
		}
		claim := store.GetVNIClaim(c.tx, vpc.VNI)
		if claim == nil || claim.VPCUID != vpc.UID {
			c.add(Difference{
				Kind: VNIUnclaimed, Subject: "VPC " + vpc.Name, What: fmt.Sprintf("has VNI %d without its own VNIClaim", vpc.VNI),
				Do: "find out who deleted the claim; " + seeOperator,
			})
		}
	}
	// A claim that waits for nodes is not a difference.
	for _, claim := range replies.Resting(c.tx) {
		if !claim.Deleting && len(replies.Awaited(c.tx, claim.VNI)) == 0 {
			c.add(Difference{
				Kind: VNILeft, Subject: fmt.Sprintf("VNIClaim vni-%d", claim.VNI),
				What: fmt.Sprintf("belongs to VPC %s (UID %s), which is gone, and no node holds the VNI", claim.VPC, claim.VPCUID),
				Do:   "see the log of alioth-operator, which should have released it",
			})
		}
	}
}

// addresses checks every claim of an address.
func (c *comparison) addresses() {
	for _, row := range store.ListAddresses(c.tx) {
		if row.Deleting {
			continue
		}
		switch row.Holder.Kind {
		case store.HolderNode:
			c.nodeAddress(row)
		case store.HolderService:
			c.serviceAddress(row)
		case store.HolderPod:
			c.podAddress(row)
		}
		if row.VPC != "" {
			c.inSubnet(row)
		}
		c.completeSet(row)
	}
}

func (c *comparison) claim(kind Kind, row *store.Address, do, what string, values ...any) {
	c.add(
		Difference{Kind: kind, Node: row.Node, Subject: "Address " + row.Name, What: fmt.Sprintf(what, values...), Do: do},
	)
}

func (c *comparison) nodeAddress(row *store.Address) {
	node := store.GetNode(c.tx, row.Node)
	if node == nil || node.UID != row.Holder.UID {
		c.claim(AddressLeft, row, seeOperator, "is held by node %s (UID %s), which is gone", row.Holder.Name, row.Holder.UID)
	}
}

func (c *comparison) serviceAddress(row *store.Address) {
	service := store.GetService(c.tx, row.Holder.Namespace, row.Holder.Name)
	switch {
	case service == nil || service.UID != row.Holder.UID:
		c.claim(
			AddressLeft,
			row,
			seeOperator,
			"is held by Service %s/%s (UID %s), which is gone",
			row.Holder.Namespace,
			row.Holder.Name,
			row.Holder.UID,
		)
	case service.LoadBalancer != store.LoadBalancerVPC:
		c.claim(
			AddressLeft,
			row,
			seeOperator,
			"is held by Service %s/%s, which requests no address in a VPC",
			row.Holder.Namespace,
			row.Holder.Name,
		)
	}
}

// externalAddresses checks every claim of an address outside of all VPCs.
func (c *comparison) externalAddresses() {
	for _, row := range external.ListAddresses(c.tx) {
		service := store.GetService(c.tx, row.Holder.Namespace, row.Holder.Name)
		if row.Deleting ||
			service != nil && service.UID == row.Holder.UID && service.LoadBalancer == store.LoadBalancerExternal {
			continue
		}
		c.add(Difference{
			Kind: AddressLeft, Subject: "ExternalAddress " + row.IP.String(), Do: seeOperator,
			What: fmt.Sprintf(
				"is held by Service %s/%s (UID %s), which is gone or requests none",
				row.Holder.Namespace,
				row.Holder.Name,
				row.Holder.UID,
			),
		})
	}
}

func (c *comparison) podAddress(row *store.Address) {
	pod := store.GetPod(c.tx, row.Holder.UID)
	records, known := c.attachments(row.Node, row.Holder.UID)
	holder := fmt.Sprintf("pod %s/%s (UID %s)", row.Holder.Namespace, row.Holder.Name, row.Holder.UID)
	byHand := fmt.Sprintf(
		"if it lasts, see the log of %s, and release it: aliothctl release %s %s",
		c.releaser(row.Node),
		row.Domain(),
		row.IP,
	)
	switch {
	case len(records) > 0 && pod == nil:
		// Reported as an attachment, which has to be removed first.
	case pod == nil && !known && !c.fenced(row.Node):
		c.claim(
			AddressWaits,
			row,
			"get the node back, or vouch that nothing runs there: delete the Node, or taint it with node.kubernetes.io/out-of-service",
			"is held by %s, which is gone, but its node does not answer and may still run it",
			holder,
		)
	case pod == nil:
		c.claim(AddressLeft, row, byHand, "is held by %s, which is gone", holder)
	case !pod.Holds(row):
		c.claim(
			AddressMisplaced,
			row,
			seeOperator,
			"counts for nothing: it names %s, which is %s/%s on node %q",
			holder,
			pod.Namespace,
			pod.Name,
			pod.Node,
		)
	case (pod.Terminal || pod.Deleting) && known && len(records) == 0:
		c.claim(AddressLeft, row, byHand, "is held by %s, which has ended and is no longer attached", holder)
	}
}

// releaser names the component that releases the addresses of a node.
func (c *comparison) releaser(node string) string {
	if c.fenced(node) {
		return "alioth-operator"
	}
	return "alioth-cnid on " + node
}

// fenced reports whether no pod can run on a node.
func (c *comparison) fenced(name string) bool {
	node := store.GetNode(c.tx, name)
	return node == nil || node.OutOfService
}

func (c *comparison) inSubnet(row *store.Address) {
	subnet := store.GetSubnet(c.tx, row.Subnet)
	if subnet == nil || subnet.VPC != row.VPC {
		c.claim(
			AddressOutside,
			row,
			"make the subnet again with its ranges, or delete the holder",
			"is of subnet %s, which VPC %s does not have",
			row.Subnet,
			row.VPC,
		)
		return
	}
	if !slices.ContainsFunc(subnet.Prefixes, func(p netip.Prefix) bool { return p.Contains(row.IP) }) {
		c.claim(
			AddressOutside,
			row,
			"give the subnet a range that contains it, or delete the holder",
			"lies in no range of its subnet %s",
			row.Subnet,
		)
	}
}

func (c *comparison) completeSet(row *store.Address) {
	for _, ip := range row.Set {
		other := store.AddressByIP(c.tx, row.Domain(), ip)
		if other == nil || other.Holder.UID != row.Holder.UID || other.Attachment != row.Attachment {
			c.claim(AddressSetBroken, row, seeOperator, "belongs to a set with %s, which the holder does not have", ip)
		}
	}
}

// pods compares the allocation status and the IPs of pods with their claims.
func (c *comparison) pods() {
	for pod := range store.AllPods(c.tx) {
		if pod.Node == "" || pod.Deleting || pod.Terminal {
			continue
		}
		held := c.held(pod, anyAttachment)
		status := c.in.Pods[pod.UID]
		if len(held) == 0 {
			if status.Running && !outsideOnly(pod) {
				c.pod(
					AddressMissing,
					pod,
					recreatePod+"; until then another pod may get its IP",
					"runs with IPs %v and has no Address",
					status.IPs,
				)
			}
			continue
		}
		c.annotation(pod, held)
		// The kubelet reports the IPs of the first interface.
		if first := c.held(pod, v1alpha1.PodAttachment); len(first) > 0 && len(status.IPs) > 0 &&
			!slices.Equal(sorted(status.IPs), first) {
			c.pod(PodIPDiffers, pod, recreatePod, "has IPs %v in its status, and Addresses for %v", status.IPs, first)
		}
		if records, known := c.attachments(pod.Node, pod.UID); known && len(records) == 0 && status.Running {
			c.pod(NotAttached, pod, recreatePod+"; it has no network", "runs, and is not in its node's journal")
		}
	}
}

func (c *comparison) pod(kind Kind, pod *store.Pod, do, what string, values ...any) {
	c.add(
		Difference{
			Kind:    kind,
			Node:    pod.Node,
			Subject: "pod " + pod.Namespace + "/" + pod.Name,
			What:    fmt.Sprintf(what, values...),
			Do:      do,
		},
	)
}

// annotation compares the allocation status of a pod with the claims.
func (c *comparison) annotation(pod *store.Pod, held []netip.Addr) {
	if !allocation.IsOpen(pod) {
		return // the pod has no allocation status yet
	}
	list, err := annotations.ParseAttachments(pod.Attachments)
	if err != nil {
		c.pod(
			AnnotationDiffers,
			pod,
			recreatePod,
			"has an unusable annotation about its attachments: %s",
			strings.TrimSpace(err.Error()),
		)
		return
	}
	var annotated []netip.Addr
	for _, attachment := range list {
		if !claimed(attachment) {
			continue
		}
		for _, prefix := range attachment.Addresses {
			annotated = append(annotated, prefix.Addr())
		}
	}
	if !slices.Equal(sorted(annotated), held) {
		c.pod(AnnotationDiffers, pod, recreatePod, "has IPs %v in its annotation, and Addresses for %v", annotated, held)
	}
}

// claimed reports whether the addresses of an attachment are Address objects: addresses of a VPC
// are, and so are addresses of a network outside of every VPC whose UID the annotation has.
func claimed(a netif.Interface) bool {
	return a.Outside == "" || a.OutsideUID != "" && len(a.Addresses) > 0
}

// outsideOnly reports whether all attachments of a pod lead outside of every VPC, and none
// of their addresses is claimed.
func outsideOnly(pod *store.Pod) bool {
	list, err := annotations.ParseAttachments(pod.Attachments)
	return err == nil && len(list) > 0 && !slices.ContainsFunc(list, claimed)
}

// anyAttachment means all attachments of a pod.
const anyAttachment = ""

// held returns the IPs that are claimed for an attachment of a pod, sorted.
func (c *comparison) held(pod *store.Pod, attachment string) []netip.Addr {
	var ips []netip.Addr
	for _, row := range store.AddressesByPod(c.tx, pod) {
		if !row.Deleting && (attachment == anyAttachment || row.Attachment == attachment) {
			ips = append(ips, row.IP)
		}
	}
	return sorted(ips)
}

func sorted(ips []netip.Addr) []netip.Addr {
	return slices.SortedFunc(slices.Values(ips), netip.Addr.Compare)
}
