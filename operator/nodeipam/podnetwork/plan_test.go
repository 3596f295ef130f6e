// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"strings"
	"testing"

	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
)

const early, today = "acn.azure.com", "multitenancy.acn.azure.com"

func podNetwork(group string, age int, change func(*nodeipam.PodNetwork)) *nodeipam.PodNetwork {
	row := &nodeipam.PodNetwork{Meta: operatortest.Meta("uid-"+group, age), Ref: nodeipam.Ref{Group: group, Name: "pn"}, VPC: "v", Subnet: "net1"}
	if change != nil {
		change(row)
	}
	return row
}

// delegated returns the address of an interface in a PodNetwork, of a pod that asks for one.
func delegated(attachment string, external bool, label string) []any {
	pod := operatortest.Pod("blue", "a", "p", "", "")
	pod.Labels = map[string]string{multitenancyv1alpha1.PodNetworkLabel: label}
	address := operatortest.Address("v", "sub", "10.0.1.9", pod)
	address.Attachment, address.External = attachment, external
	return []any{pod, address}
}

func TestDecide_PodNetwork_UsableOrReason(t *testing.T) {
	vpc, subnet := operatortest.VPC("v", 1, []string{"blue"}, "10.0.0.0/16"), operatortest.Subnet("sub", "v", "net1", 0, "10.0.1.0/24")
	unready, unreadySubnet, forServices := *vpc, *subnet, *subnet
	unready.Ready, unreadySubnet.Ready, forServices.ForServices = false, false, true
	base := []any{vpc, subnet}
	instance := &nodeipam.Instance{
		Meta: operatortest.Meta("uid-pni", 0), Ref: nodeipam.Ref{Group: today, Namespace: "a", Name: "pni"},
		Reserved: []nodeipam.Reserved{{PodNetwork: "pn", VPC: "v", IPs: operatortest.Addrs("10.0.1.7")}},
	}
	const (
		ready, inUse, not = multitenancyv1alpha1.PodNetworkReady, multitenancyv1alpha1.PodNetworkInUse, multitenancyv1alpha1.PodNetworkNotDelegated
	)
	of := func(change func(*nodeipam.PodNetwork)) *nodeipam.PodNetwork { return podNetwork(today, 5, change) }
	for name, c := range map[string]struct {
		row             *nodeipam.PodNetwork
		rows            []any
		state           multitenancyv1alpha1.PodNetworkState
		reason, message string
	}{
		"a subnet":                           {of(nil), base, ready, v1alpha1.ReadyReason, ""},
		"a subnet by the name of its object": {of(func(n *nodeipam.PodNetwork) { n.Subnet = "sub" }), base, ready, v1alpha1.ReadyReason, ""},
		"an instance":                        {of(nil), append(base, instance), inUse, v1alpha1.ReadyReason, ""},
		"a pod":                              {of(nil), append(base, delegated("eth1", true, "pn")...), inUse, v1alpha1.ReadyReason, ""},
		"a pod of another PodNetwork":        {of(nil), append(base, delegated("eth1", true, "other")...), ready, v1alpha1.ReadyReason, ""},
		"a pod that is gone":                 {of(nil), append(base, delegated("eth1", true, "other")[1]), inUse, v1alpha1.ReadyReason, ""},
		"a first interface in the subnet":    {of(nil), append(base, delegated("eth0", true, "pn")...), ready, v1alpha1.ReadyReason, ""},
		"a pod of Alioth's own CNI":          {of(nil), append(base, delegated("eth1", false, "pn")...), ready, v1alpha1.ReadyReason, ""},
		"no VPC":                             {of(nil), nil, not, v1alpha1.VPCNotFoundReason, `VPC "v" does not exist`},
		"a VPC that is not Ready":            {of(nil), []any{&unready, subnet}, not, v1alpha1.VPCNotReadyReason, `VPC "v"`},
		"no subnet":                          {of(func(n *nodeipam.PodNetwork) { n.Subnet = "net" }), base, not, v1alpha1.SubnetNotFoundReason, `no subnet "net"`},
		"a subnet that is not Ready":         {of(nil), []any{vpc, &unreadySubnet}, not, v1alpha1.SubnetNotReadyReason, `"sub"`},
		"a subnet of load balancers":         {of(nil), []any{vpc, &forServices}, multitenancyv1alpha1.PodNetworkOfOthers, v1alpha1.SubnetUseReason, "load balancers"},
		"nothing named":                      {of(func(n *nodeipam.PodNetwork) { n.VPC = "" }), base, not, v1alpha1.InvalidReason, "spec.networkID is empty"},
		"no subnet named":                    {of(func(n *nodeipam.PodNetwork) { n.Subnet = "" }), base, not, v1alpha1.InvalidReason, "spec.subnetResourceID is empty"},
		"InfiniBand":                         {of(func(n *nodeipam.PodNetwork) { n.Invalid = "deviceType is not served" }), base, not, v1alpha1.InvalidReason, "deviceType is not served"},
		"on its way out":                     {of(func(n *nodeipam.PodNetwork) { n.Deleting = true }), base, not, v1alpha1.DeletingReason, ""},
		"an older one in the other group":    {of(nil), append(base, podNetwork(early, 4, nil)), not, v1alpha1.OlderServesReason, "acn.azure.com"},
		"a younger one in the other group":   {of(nil), append(base, podNetwork(early, 6, nil)), ready, v1alpha1.ReadyReason, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := operatortest.Central(t, append([]any{c.row}, c.rows...)...)
			s.View(func(tx store.ReadTx) {
				d := decide(s.Of(tx), c.row)
				if d.state != c.state || d.Reason != c.reason || !strings.Contains(d.Message, c.message) || d.IsReady() != (c.reason == v1alpha1.ReadyReason) {
					t.Errorf("got %+v, want %s, %s: %s", d, c.state, c.reason, c.message)
				}
				if prefixes := strings.Join(d.prefixes, " "); d.IsReady() && prefixes != "10.0.1.0/24" {
					t.Errorf("the prefixes are %s", prefixes)
				}
			})
		})
	}
}
