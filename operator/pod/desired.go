// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/allocation"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// Binding is the network that an attachment leads to: a VPC, or a network outside of every VPC.
type Binding struct {
	// VPC is the name of the VPC object, "" outside.
	VPC string
	// Outside is the network outside of every VPC; the zero value in a VPC.
	Outside store.NetworkRef
	// Range is the network outside as a source of addresses. It is nil in a VPC, and for an
	// attachment whose network is gone.
	Range *ipam.NetworkRange
}

// InVPC reports whether the network is a VPC.
func (b Binding) InVPC() bool { return b.Outside.UID == "" }

// domain returns the domain of the attachment's addresses.
func (b Binding) domain() string {
	if b.InVPC() {
		return b.VPC
	}
	return b.Outside.Domain()
}

// Notice is an event for a pod that starts.
type Notice struct {
	Reason string
	// Action tells the events of a pod with one reason apart, in at most 128 characters:
	// events that differ in their message alone become one, with the message of the first.
	Action  string
	Message string
}

// Desired is one attachment that a pod should have.
type Desired struct {
	// Interface is its name in the pod, 1 to 15 characters. No two attachments of a
	// pod share one.
	Interface string
	// AltName is a second name of the interface, or "".
	AltName string
	// Kind names the driver on the node, for example netif.KindPair.
	Kind string
	// Network is namespace/name of the Network; "" where the VPC is used directly.
	Network string
	// Definition is namespace/name of the NetworkAttachmentDefinition that the pod has
	// selected for it, or "".
	Definition string
	// DefaultRoute and NoDefaultRoute mean the same as in netif.Interface.
	DefaultRoute, NoDefaultRoute bool
	// Interfaces are the names of all interfaces of the pod, nil if this is not the first one.
	Interfaces []string
	Binding
	// Subnet requested, by object name or spec.name; "" for any.
	Subnet string
	// IPs requested, at most one per family. In a VPC, an address is chosen for each family without
	// a requested IP. Outside, this holds for the families in Families.
	IPs      []netip.Addr
	Families ipam.Families
	// Link is the configuration of an interface outside of every VPC. The sources of its rules have
	// only the right family until the address is chosen. If plugins choose the address, the sources
	// stay so.
	Link netif.Config
	// Delegate is the work for CNI plugins that make the interface, nil for other interfaces.
	Delegate *netif.Delegate
	// Devices, Instance and PodNetwork mean the same as in ipam.Request.
	Devices              []string
	Instance, PodNetwork string
	// Prefer are the IPs that the attachment holds or runs with, if any: it gets these or
	// none.
	Prefer []netip.Addr
	// Recorded is the attachment in the allocation status if the attachment stays as it is, else
	// nil.
	Recorded *netif.Interface
	// Notices are events about the interface, written once with the allocation status.
	Notices []Notice
}

// Source returns attachments that a pod should have, or the refusal of the whole pod. It is pure. A
// refusal depends on the cause alone, and names the interface unless it is the first one. A refusal
// without a reason will soon be over: the pod waits, and gets no condition.
type Source func(tx store.ReadTx, pod *store.Pod) ([]Desired, *tenancy.Refusal)

// Primary returns the source of a pod's first attachment, in the VPC of the pod's Network,
// by default the VPC of that name.
func Primary(defaultVPC string) Source {
	return func(tx store.ReadTx, pod *store.Pod) ([]Desired, *tenancy.Refusal) {
		nic, err := annotations.ParseNIC(pod.NIC)
		if err != nil {
			return nil, &tenancy.Refusal{
				Reason: v1alpha1.NICInvalidReason, Message: fmt.Sprintf("annotation %s: %v", arktosv1.NICAnnotation, err),
			}
		}
		target, refusal := tenancy.Resolve(tx, memberOf(pod), defaultVPC)
		if refusal != nil {
			return nil, refusal
		}
		return []Desired{{
			Interface: v1alpha1.PodAttachment, AltName: altName(nic.Name), Kind: netif.KindPair,
			Network: target.NetworkKey(), Binding: Binding{VPC: target.VPC.Name}, Subnet: nic.Subnet, IPs: nic.IPs,
		}}, nil
	}
}

// desiredOf collects the attachments of a pod from all sources.
func desiredOf(tx store.ReadTx, pod *store.Pod, sources []Source) ([]Desired, *tenancy.Refusal) {
	var all []Desired
	for _, source := range sources {
		desired, refusal := source(tx, pod)
		if refusal != nil {
			return nil, refusal
		}
		for _, w := range desired {
			if has(all, w.Interface) {
				return nil, &tenancy.Refusal{
					Reason: v1alpha1.NICInvalidReason, Message: fmt.Sprintf("interface %s: the pod asks for two interfaces of that name", w.Interface),
				}
			}
			if running, ok := hinted(tx, pod, w); ok {
				w.IPs, w.Prefer = running, running
			}
			all = append(all, w)
		}
	}
	nameAll(all)
	return all, nil
}

// nameAll sets the names of all interfaces of a pod at the first one.
func nameAll(desired []Desired) {
	names := make([]string, 0, len(desired))
	for _, w := range desired {
		names = append(names, w.Interface)
	}
	for i, w := range desired {
		if w.Interface == v1alpha1.PodAttachment {
			desired[i].Interfaces = claim.FirstInFront(names)
		}
	}
}

// has reports whether one of the desired attachments is for an interface.
func has(desired []Desired, name string) bool {
	return slices.ContainsFunc(desired, func(w Desired) bool { return w.Interface == name })
}

// request returns the request for the addresses of an attachment.
func (w Desired) request(pod *store.Pod) ipam.Request {
	request := ipam.Request{
		VPC: w.VPC, Network: w.Range, Subnet: w.Subnet, IPs: w.IPs, Families: w.Families, Node: pod.Node,
		Attachment: w.Interface,
		OwnerUID:   pod.OwnerUID, Holder: pod.AsHolder(),
		External: w.Kind == netif.KindExternal, Devices: w.Devices, Instance: w.Instance, PodNetwork: w.PodNetwork,
	}
	if w.InVPC() {
		request.Config = &netif.VPCConfig{AltName: w.AltName, Definition: w.Definition, NoDefaultRoute: w.NoDefaultRoute}
		request.Interfaces = w.Interfaces
	}
	return request
}

// addressed reports whether the attachment gets addresses: each in a VPC does.
func (w Desired) addressed() bool {
	return w.InVPC() || len(w.IPs) > 0 || w.Families.Count() > 0
}

// wanted lists the claims of addresses for the desired attachments, in their order.
func wanted(pod *store.Pod, desired []Desired) []claim.Wanted {
	var all []claim.Wanted
	for _, w := range desired {
		if w.addressed() {
			all = append(all, claim.Wanted{Request: w.request(pod), Prefer: w.Prefer})
		}
	}
	return all
}

// hinted returns, for a desired attachment, the IPs that a pod without Addresses seems to run with:
// the IPs of the interface in its allocation status, or the IPs that the kubelet reports for the
// first interface. The API has lost the Addresses, or somebody else wrote the status. So the pod
// gets these IPs only if a new pod that requests them would: they are in the present VPC of its
// tenant, or in its network outside of every VPC, match its request, and have no other holder.
func hinted(tx store.ReadTx, pod *store.Pod, w Desired) ([]netip.Addr, bool) {
	ips := hintOf(pod, w)
	if len(ips) == 0 || !w.addressed() {
		return nil, false
	}
	request := w.request(pod)
	for _, ip := range request.IPs {
		if !slices.Contains(ips, ip) {
			return nil, false
		}
	}
	request.IPs = ips
	result, err := ipam.Choose(tx, request)
	return ips, err == nil && slices.Equal(result.IPs, ips)
}

// hintOf returns the IPs that a pod names for an interface, nil for none.
func hintOf(pod *store.Pod, w Desired) []netip.Addr {
	for _, attachment := range allocation.Status(pod) {
		if attachment.Name == w.Interface && allocation.Domain(attachment) == w.domain() {
			return allocation.IPs(attachment)
		}
	}
	if w.Interface == v1alpha1.PodAttachment {
		return pod.IPs
	}
	return nil
}

func memberOf(pod *store.Pod) tenancy.Member {
	return tenancy.Member{Tenant: pod.Tenant, Namespace: pod.Namespace, Label: pod.Network}
}

// altName returns the second name of an interface, "" if none is requested.
func altName(name string) string {
	if name == v1alpha1.PodAttachment {
		return ""
	}
	return name
}
