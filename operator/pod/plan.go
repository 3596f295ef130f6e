// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/allocation"
	"github.com/alioth-net/alioth/store/tenancy"
)

// wish is what a pod is to be given.
type wish struct {
	request ipam.Request
	// network is namespace/name of the pod's Network; "" for the default VPC.
	network string
	altName string
	// prefer are the IPs that the pod was told already, if any.
	prefer []netip.Addr
}

// verb says what is to be done about a pod.
type verb int

const (
	// leave the pod alone.
	leave verb = iota
	// refuse it, for the decision's refusal.
	refuse
	// assign it the decision's wish.
	assign
	// restore the addresses that it was told, which are not in the API any
	// more, or not alone.
	restore
)

type decision struct {
	verb    verb
	wish    wish
	refusal tenancy.Refusal
}

// decide plans for one pod.
func decide(tx store.ReadTx, pod *store.Pod, defaultVPC string) decision {
	if pod.Node == "" || pod.Terminal || pod.Deleting {
		return decision{}
	}
	if list := allocation.Attachments(pod); list != nil {
		return recheck(tx, pod, list)
	}
	nic, err := annotations.ParseNIC(pod.NIC)
	if err != nil {
		return refused(v1alpha1.NICInvalidReason, fmt.Sprintf("annotation %s: %v", arktosv1.NICAnnotation, err))
	}
	target, refusal := tenancy.Resolve(tx, memberOf(pod), defaultVPC)
	if refusal != nil {
		return refused(refusal.Reason, refusal.Message)
	}
	w := wish{request: requestOf(pod, target.VPC.Name), network: target.NetworkKey()}
	w.request.Subnet, w.request.IPs = nic.Subnet, nic.IPs
	w.altName = altName(nic.Name)
	if running, ok := ofSandbox(tx, pod, w.request); ok {
		w.request.IPs, w.prefer = running, running
	}
	return decision{verb: assign, wish: w}
}

// ofSandbox returns the IPs with which a sandbox of a pod ran that was told nothing,
// as the kubelet reports them: the API was restored from a backup of the moment
// before. The pod may have them again where it may have them now: they lie in the VPC
// that is its tenant's today, agree with what it asks for, and nobody else has them.
func ofSandbox(tx store.ReadTx, pod *store.Pod, request ipam.Request) ([]netip.Addr, bool) {
	for _, ip := range request.IPs {
		if !slices.Contains(pod.IPs, ip) {
			return nil, false
		}
	}
	if len(pod.IPs) == 0 {
		return nil, false
	}
	request.IPs = pod.IPs
	result, err := ipam.Choose(tx, request)
	return pod.IPs, err == nil && slices.Equal(result.IPs, pod.IPs)
}

func memberOf(pod *store.Pod) tenancy.Member {
	return tenancy.Member{Tenant: pod.Tenant, Namespace: pod.Namespace, Label: pod.Network}
}

// altName is the further name of an interface, "" where it asks for none.
func altName(name string) string {
	if name == v1alpha1.PodAttachment {
		return ""
	}
	return name
}

func refused(reason, message string) decision {
	return decision{verb: refuse, refusal: tenancy.Refusal{Reason: reason, Message: message}}
}

func requestOf(pod *store.Pod, vpc string) ipam.Request {
	return ipam.Request{
		VPC: vpc, Node: pod.Node, Attachment: v1alpha1.PodAttachment, OwnerUID: pod.OwnerUID,
		Holder: pod.AsHolder(),
	}
}

// recheck leaves a pod alone that has what it was told and nothing else,
// whatever its Network says by now. Where its addresses are missing from the
// API, they are to be claimed again as they were, and others are to go.
func recheck(tx store.ReadTx, pod *store.Pod, list []annotations.Attachment) decision {
	for _, attachment := range list {
		ips := allocation.IPs(attachment)
		missing := slices.ContainsFunc(ips, func(ip netip.Addr) bool {
			row := store.AddressByIP(tx, attachment.VPC, ip)
			return row == nil || !pod.Holds(row) || row.UID == ""
		})
		w := wish{request: requestOf(pod, attachment.VPC), prefer: ips, network: attachment.Network, altName: attachment.AltName}
		w.request.Subnet, w.request.IPs, w.request.Attachment = attachment.Subnet, ips, attachment.Name
		if missing || len(untold(tx, pod, attachment)) > 0 {
			return decision{verb: restore, wish: w}
		}
	}
	return decision{}
}

// untold lists addresses of the same attachment that the pod was not told: a
// write of an operator that died arrived late.
func untold(tx store.ReadTx, pod *store.Pod, attachment annotations.Attachment) []*store.Address {
	return slices.DeleteFunc(store.AddressesByPod(tx, pod), func(row *store.Address) bool {
		return row.Attachment != attachment.Name ||
			row.VPC == attachment.VPC && slices.Contains(allocation.IPs(attachment), row.IP)
	})
}

// outcome is what a pod is told about its addresses.
type outcome struct {
	attachments []annotations.Attachment
	userInput   annotations.UserInput
}

// describe puts the rows of a complete set into words. Gateways and prefix
// lengths are those of the subnet.
func describe(w wish, rows []*store.Address, subnet *store.Subnet) outcome {
	attachment := annotations.Attachment{
		Name: rows[0].Attachment, AltName: w.altName, Kind: "veth", Network: w.network,
		VPC: rows[0].VPC, Subnet: rows[0].Subnet, MAC: rows[0].MAC,
	}
	sorted := slices.SortedFunc(slices.Values(rows), func(a, b *store.Address) int { return a.IP.Compare(b.IP) })
	for _, row := range sorted {
		for i, prefix := range subnet.Prefixes {
			if prefix.Contains(row.IP) {
				attachment.Addresses = append(attachment.Addresses, netip.PrefixFrom(row.IP, prefix.Bits()))
				attachment.Gateways = append(attachment.Gateways, subnet.Gateways[i])
			}
		}
	}
	return outcome{
		attachments: []annotations.Attachment{attachment},
		userInput: annotations.UserInput{
			VPC: rows[0].VPC, Net: cmp.Or(subnet.ShortName, subnet.Name), IP: sorted[0].IP.String(),
		},
	}
}
