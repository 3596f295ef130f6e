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
	"github.com/alioth-net/alioth/operator/told"
	"github.com/alioth-net/alioth/store"
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
	// retell it its addresses: a sandbox of it lives with others than it was
	// told, or it was told none.
	retell
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
	if list := told.Attachments(pod); list != nil {
		return recheck(tx, pod, list)
	}
	nic, err := annotations.ParseNIC(pod.NIC)
	if row := asserted(store.AddressesByHolder(tx, pod.UID)); row != nil {
		return adopt(tx, pod, row, nic.Name, defaultVPC)
	}
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
	return decision{verb: assign, wish: w}
}

// adopt tells a pod what it lives with although it was told nothing: its API
// object was restored from a backup, or its addresses lost. Its VPC stays until
// it goes, whatever its Network says by now, as with every running pod.
func adopt(tx store.ReadTx, pod *store.Pod, row *store.Address, name, defaultVPC string) decision {
	target, _ := tenancy.Resolve(tx, memberOf(pod), defaultVPC)
	w := wish{request: requestOf(pod, row.VPC), network: target.NetworkKey(), altName: altName(name)}
	w.request.Attachment = row.Attachment
	return inUse(w, row)
}

// inUse asks for the addresses of a sandbox, one of which is the row.
func inUse(w wish, row *store.Address) decision {
	w.request.VPC, w.request.Subnet, w.request.IPs, w.prefer = row.VPC, row.Subnet, row.Set, row.Set
	return decision{verb: retell, wish: w}
}

// asserted returns one of the addresses that a daemon has a sandbox with, nil
// where there is none.
func asserted(rows []*store.Address) *store.Address {
	if i := slices.IndexFunc(rows, func(row *store.Address) bool { return row.Asserted }); i >= 0 {
		return rows[i]
	}
	return nil
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
		Holder: store.Holder{Kind: store.HolderPod, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}
}

// recheck leaves a pod alone that has what it was told and nothing else,
// whatever its Network says by now. Where its addresses are missing from the
// API, they are to be claimed again as they were; but where its node's daemon
// asserts others, those are the ones in use.
func recheck(tx store.ReadTx, pod *store.Pod, list []annotations.Attachment) decision {
	for _, attachment := range list {
		ips := told.IPs(attachment)
		missing := slices.ContainsFunc(ips, func(ip netip.Addr) bool {
			row := store.AddressByIP(tx, attachment.VPC, ip)
			return row == nil || row.Holder.UID != pod.UID || row.UID == ""
		})
		w := wish{request: requestOf(pod, attachment.VPC), prefer: ips, network: attachment.Network, altName: attachment.AltName}
		w.request.Subnet, w.request.IPs, w.request.Attachment = attachment.Subnet, ips, attachment.Name
		others := untold(tx, pod, attachment)
		if row := asserted(others); row != nil {
			return inUse(w, row)
		}
		if missing || len(others) > 0 {
			return decision{verb: restore, wish: w}
		}
	}
	return decision{}
}

// untold lists addresses of the same attachment that the pod was not told: a
// write of an operator that died arrived late, or a daemon made them.
func untold(tx store.ReadTx, pod *store.Pod, attachment annotations.Attachment) []*store.Address {
	return slices.DeleteFunc(store.AddressesByHolder(tx, pod.UID), func(row *store.Address) bool {
		return row.Attachment != attachment.Name ||
			row.VPC == attachment.VPC && slices.Contains(told.IPs(attachment), row.IP)
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
