// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netservice

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/services"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// member is one endpoint: a pod at one of its addresses.
type member struct {
	pod *store.Pod
	ip  netip.Addr
}

// decision is the wanted state of a Service.
type decision struct {
	// members has the endpoints by the domain of their addresses, each once, sorted by pod and
	// address. A domain without endpoints is there only for a network outside of every VPC, if the
	// Service has a ClusterIP: the slice of the domain tells nodes to refuse connections.
	members map[string][]member
	// refusals explain missing endpoints.
	refusals []*tenancy.Refusal
}

// maxNamed is how many interfaces a message names.
const maxNamed = 3

// decide selects the endpoints of a Service with annotations. Annotations that can't be
// used select none: after a restart the operator does not know their earlier meaning, and an
// endpoint without updates may soon have the address of another pod.
func decide(tx store.ReadTx, service *store.Service, rules Rules) decision {
	ns, selection := store.GetNamespace(tx, service.Namespace), service.Endpoints
	switch {
	case service.Deleting || ns == nil || selection == nil:
		return decision{}
	case selection.Problem != "":
		return refused(v1alpha1.EndpointsInvalidReason, "the Service has no endpoints: %s", selection.Problem)
	case !service.Selectorless:
		return refused(
			v1alpha1.SelectorInSpecReason,
			"the annotations for endpoints do not count, because the Service has a selector, for which Kubernetes writes the endpoints: remove spec.selector, or the annotations",
		)
	}
	if refusal := rules.checkLimit(tx, service, ns.Tenant); refusal != nil {
		return decision{refusals: []*tenancy.Refusal{refusal}}
	}
	s := seeker{tx: tx, rules: rules, namespace: ns.Name, tenant: ns.Tenant}
	var places []place
	var d decision
	for _, name := range selection.Networks {
		at, refusal := s.find(name)
		if refusal != nil {
			d.refusals = append(d.refusals, refusal)
			continue
		}
		places = append(places, at)
	}
	d.members = map[string][]member{}
	for _, at := range places {
		if at.outside != "" && len(service.ClusterIPs) > 0 {
			d.members[store.NetworkRef{UID: at.outside}.Domain()] = nil
		}
	}
	bare := d.fill(s, selection, places)
	d.refusals = append(d.refusals, withoutAddress(bare), unserved(tx, service, d.members, rules))
	return d
}

func refused(reason, format string, args ...any) decision {
	return decision{refusals: []*tenancy.Refusal{{Reason: reason, Message: fmt.Sprintf(format, args...)}}}
}

// fill adds the selected interfaces as members, and returns those without an address.
func (d *decision) fill(s seeker, selection *store.EndpointSelection, places []place) (bare []*multinet.Claim) {
	for _, pod := range store.PodsByNamespace(s.tx, s.namespace) {
		if pod.Node == "" || pod.Terminal || !selection.Selects(pod.Labels) {
			continue
		}
		for _, at := range places {
			addresses, without := s.interfaces(pod, at)
			bare = append(bare, without...)
			for _, row := range addresses {
				one := member{pod: pod, ip: row.IP}
				if list := d.members[row.Domain()]; !slices.Contains(list, one) {
					d.members[row.Domain()] = append(list, one)
				}
			}
		}
	}
	for _, list := range d.members {
		slices.SortFunc(list, func(a, b member) int {
			return cmp.Or(strings.Compare(a.pod.Name, b.pod.Name), strings.Compare(a.pod.UID, b.pod.UID), a.ip.Compare(b.ip))
		})
	}
	return bare
}

// interfaces returns the addresses of a pod's interfaces in a place, and the claims of its
// interfaces there without an address. It depends on objects alone that the operator
// writes: Addresses, and AttachmentClaims for networks outside of every VPC.
func (s seeker) interfaces(pod *store.Pod, at place) (addresses []*store.Address, bare []*multinet.Claim) {
	held := slices.DeleteFunc(store.AddressesByPod(s.tx, pod), func(row *store.Address) bool {
		// The claim of an address may fail while its row is assumed.
		return row.UID == "" && !row.Kept || row.IsHeldBack()
	})
	if at.outside == "" {
		vpc := at.vpc
		if at.ofPod {
			vpc = s.vpcOf(pod)
		}
		return slices.DeleteFunc(held, func(row *store.Address) bool {
			return vpc == "" || row.VPC != vpc || at.subnet != "" && row.Subnet != at.subnet
		}), nil
	}
	for _, claim := range multinet.ClaimsByPod(s.tx, pod) {
		if claim.Network.UID != at.outside || claim.Released {
			continue
		}
		before := len(addresses)
		for _, row := range held {
			if row.Network.UID == at.outside && row.Attachment == claim.Interface {
				addresses = append(addresses, row)
			}
		}
		if len(addresses) == before {
			bare = append(bare, claim)
		}
	}
	return addresses, bare
}

// vpcOf returns the VPC that the Network of a pod leads to, "" without one.
func (s seeker) vpcOf(pod *store.Pod) string {
	target, _ := tenancy.Resolve(
		s.tx,
		tenancy.Member{Tenant: pod.Tenant, Namespace: pod.Namespace, Label: pod.Network},
		s.rules.DefaultVPC,
	)
	if target.VPC == nil || !tenancy.Allows(target.VPC, pod.Tenant) {
		return ""
	}
	return target.VPC.Name
}

// withoutAddress explains why interfaces can't be endpoints. It returns nil for an
// empty list.
func withoutAddress(bare []*multinet.Claim) *tenancy.Refusal {
	if len(bare) == 0 {
		return nil
	}
	var names []string
	delegated := false
	for _, claim := range bare[:min(len(bare), maxNamed)] {
		names = append(names, fmt.Sprintf("%s of pod %s in %s", claim.Interface, claim.PodName, claim.Network))
		delegated = delegated || claim.Driver == netif.KindDelegate
	}
	if len(bare) > maxNamed {
		names = append(names, fmt.Sprintf("and %d more", len(bare)-maxNamed))
	}
	help := `request one for the pod, for example with "ip": "dynamic"`
	if delegated {
		help = "an address that a CNI plugin chooses by itself is known from the node alone, and does not count; let Alioth choose the addresses (cidr of the network, or the plugin alioth-ipam)"
	}
	return &tenancy.Refusal{Reason: v1alpha1.InterfaceWithoutAddressReason, Message: fmt.Sprintf(
		"interfaces without an address of Alioth are no endpoints: %s: %s", strings.Join(names, ", "), help)}
}

// unserved explains that the ClusterIP of a Service does not lead to some of its endpoints. It
// returns nil if the ClusterIP leads to all of them, or if the Service has no ClusterIP.
func unserved(tx store.ReadTx, service *store.Service, members map[string][]member, rules Rules) *tenancy.Refusal {
	if len(service.ClusterIPs) == 0 {
		return nil
	}
	home := services.VPCOf(tx, service, rules.DefaultVPC)
	for domain := range members {
		if domain != home && !store.IsNetworkDomain(domain) {
			return &tenancy.Refusal{
				Reason: v1alpha1.ClusterIPNotServedReason,
				Message: "of all VPCs the ClusterIP of the Service exists in that of the Service only: " +
					"clients reach endpoints in other VPCs at their own addresses, as DNS has them if spec.clusterIP is None",
			}
		}
	}
	return nil
}
