// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func vpc(name string, cidrs ...string) *v1alpha1.VPC {
	return &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.VPCSpec{CIDRs: cidrs}}
}

func subnet(name, vpc, short string, cidrs ...string) *v1alpha1.Subnet {
	return &v1alpha1.Subnet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.SubnetSpec{VPC: vpc, Name: short, CIDRs: cidrs}}
}

func creating(object client.Object) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		copied, ok := object.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("copy %T", object)
		}
		return c.Create(ctx, copied, client.DryRunAll)
	}
}

func TestSubnet_RangeOutsideVPC_Refused(t *testing.T) {
	admin := start(t)
	who := clusterAdmin()
	create(t, admin, vpc("in", "10.10.0.0/16", "10.11.0.0/16", "fd10:10::/48"))
	create(t, admin, subnet("in-have", "in", "", "10.10.9.0/24"))
	// Without subnets, so that one policy alone can refuse.
	create(t, admin, vpc("in-empty", "10.10.0.0/16", "10.11.0.0/16"))
	run(t, slices.Concat(
		creations(t, "outside", who, subnet("s", "in", "", "10.12.1.0/24"), `inside the ranges of the VPC "in"`),
		creations(t, "wider than the VPC", who, subnet("s", "in-empty", "", "10.8.0.0/13"), `inside the ranges of the VPC "in-empty"`),
		creations(t, "across two ranges of the VPC", who, subnet("s", "in-empty", "", "10.10.0.0/15"), `inside the ranges`),
		creations(t, "one family outside", who, subnet("s", "in", "", "10.10.1.0/24", "fd10:11::/64"), `inside the ranges`),
		creations(t, "inside in both families", who, subnet("s", "in", "", "10.10.1.0/24", "fd10:10:0:1::/64"), ""),
		creations(t, "a whole range of the VPC", who, subnet("s", "in", "", "10.11.0.0/16"), ""),
		creations(t, "of a VPC that is not there yet", who, subnet("s", "in-future", "", "10.99.0.0/24"), ""),
	))
	runChanges(t, []change[*v1alpha1.Subnet]{
		{
			name:    "grown out of the VPC",
			who:     who,
			object:  subnet("in-have", "", ""),
			edit:    func(s *v1alpha1.Subnet) { s.Spec.CIDRs = []string{"10.0.0.0/8"} },
			refused: "inside the ranges",
		},
		{name: "grown within the VPC", who: who, object: subnet("in-have", "", ""), edit: func(s *v1alpha1.Subnet) { s.Spec.CIDRs = []string{"10.10.8.0/23"} }},
	})
}

func TestSubnet_OverlapInVPC_Refused(t *testing.T) {
	admin := start(t)
	who := clusterAdmin()
	create(t, admin, subnet("apart-one", "apart", "net1", "10.20.1.0/24", "fd20:0:0:1::/64"))
	create(t, admin, subnet("apart-two", "apart", "", "10.20.4.0/24"))
	run(t, slices.Concat(
		creations(t, "the same range", who, subnet("s", "apart", "", "10.20.1.0/24"), `must not overlap the subnet "apart-one"`),
		creations(t, "a part of it", who, subnet("s", "apart", "", "10.20.1.128/25"), `must not overlap`),
		creations(t, "around it", who, subnet("s", "apart", "", "10.20.0.0/22"), `must not overlap`),
		creations(t, "in the other family only", who, subnet("s", "apart", "", "10.20.2.0/24", "fd20::/56"), `must not overlap`),
		creations(t, "beside it", who, subnet("s", "apart", "", "10.20.2.0/24", "fd20:0:0:2::/64"), ""),
		creations(t, "the same range in another VPC", who, subnet("s", "elsewhere", "net1", "10.20.1.0/24"), ""),
		creations(t, "the same name", who, subnet("s", "apart", "net1", "10.20.3.0/24"), `already has a subnet named "net1"`),
		creations(t, "the name of another's object", who, subnet("s", "apart", "apart-two", "10.20.3.0/24"), `already has a subnet named "apart-two"`),
		creations(t, "an object name that is another's name", who, subnet("net1", "apart", "", "10.20.3.0/24"), `already has a subnet named "net1"`),
	))
	runChanges(t, []change[*v1alpha1.Subnet]{
		{
			name:    "grown into another",
			who:     who,
			object:  subnet("apart-two", "", ""),
			edit:    func(s *v1alpha1.Subnet) { s.Spec.CIDRs = []string{"10.20.0.0/21"} },
			refused: `must not overlap`,
		},
		{name: "grown beside the other", who: who, object: subnet("apart-two", "", ""), edit: func(s *v1alpha1.Subnet) { s.Spec.CIDRs = []string{"10.20.4.0/22"} }},
		{
			name:    "renamed to another's name",
			who:     who,
			object:  subnet("apart-two", "", ""),
			edit:    func(s *v1alpha1.Subnet) { s.Spec.Name = "net1" },
			refused: `already has a subnet`,
		},
	})
}

// TestSubnet_ExistingOverlap_StaysEditable: two that were created at one moment may overlap; they
// must still lose their finalizers.
func TestSubnet_ExistingOverlap_StaysEditable(t *testing.T) {
	admin := start(t)
	create(t, admin, subnet("late-one", "late", "", "10.30.0.0/24"))
	establish(t, admin, vpc("late", "10.99.0.0/16"))
	who := clusterAdmin()
	runChanges(t, []change[*v1alpha1.Subnet]{
		{
			name:    "outside when its ranges change",
			who:     who,
			object:  subnet("late-one", "", ""),
			edit:    func(s *v1alpha1.Subnet) { s.Spec.CIDRs = []string{"10.30.0.0/23"} },
			refused: "inside the ranges",
		},
		{name: "labels", who: who, object: subnet("late-one", "", ""), edit: func(s *v1alpha1.Subnet) { s.Labels = map[string]string{"a": "b"} }},
		{
			name:   "finalizers, by the operator",
			who:    operator(),
			object: subnet("late-one", "", ""),
			edit:   func(s *v1alpha1.Subnet) { s.Finalizers = []string{v1alpha1.Finalizer} },
			except: byUpdate,
		},
	})
	runChanges(t, []change[*v1alpha1.VPC]{
		{name: "the VPC may grow without reaching it", who: who, object: vpc("late"), edit: func(v *v1alpha1.VPC) { v.Spec.CIDRs = []string{"10.98.0.0/15"} }},
	})
}

func TestVPC_RangeOfSubnetRemoved_Refused(t *testing.T) {
	admin := start(t)
	who := clusterAdmin()
	establish(t, admin, vpc("keeps", "10.40.0.0/16", "10.41.0.0/16"))
	create(t, admin, subnet("keeps-one", "keeps", "", "10.40.1.0/24"))
	ranges := func(cidrs ...string) func(*v1alpha1.VPC) {
		return func(v *v1alpha1.VPC) { v.Spec.CIDRs = cidrs }
	}
	runChanges(t, []change[*v1alpha1.VPC]{
		{name: "losing a subnet's range", who: who, object: vpc("keeps"), edit: ranges("10.41.0.0/16"), refused: `must still contain the subnet "keeps-one"`},
		{name: "shrinking below a subnet", who: who, object: vpc("keeps"), edit: ranges("10.40.0.0/24", "10.41.0.0/16"), refused: `must still contain`},
		{name: "losing an unused range", who: who, object: vpc("keeps"), edit: ranges("10.40.0.0/16")},
		{name: "shrinking around the subnet", who: who, object: vpc("keeps"), edit: ranges("10.40.0.0/20")},
		{name: "growing", who: who, object: vpc("keeps"), edit: ranges("10.40.0.0/14")},
	})
}

func TestVPC_OverlapsClusterRange_Refused(t *testing.T) {
	admin := start(t)
	who := clusterAdmin()
	create(t, admin, &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "added"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.77.0.0/24"}},
	})
	run(t, slices.Concat(
		creations(t, "a service range", who, vpc("v", "10.96.128.0/24"), "the cluster's service range 10.96.0.0/16"),
		creations(t, "around a service range", who, vpc("v", "10.0.0.0/8"), "must not overlap"),
		creations(t, "an IPv6 service range", who, vpc("v", "10.1.0.0/16", "fd96::/64"), "must not overlap"),
		creations(t, "a service range that was added later", who, vpc("v", "10.77.0.0/16"), `(ServiceCIDR "added")`),
		creations(t, "the IPv6 shadow range", who, vpc("v", "fd41:6c69:6f74::/48"), "shadow addresses"),
		creations(t, "what another VPC has", who, vpc("v", "10.10.0.0/16"), ""),
		creations(t, "the nodes' network", who, vpc("v", "192.168.0.0/16"), ""),
	))
	establish(t, admin, vpc("avoids", "10.97.0.0/17"))
	ranges := func(cidrs ...string) func(*v1alpha1.VPC) {
		return func(v *v1alpha1.VPC) { v.Spec.CIDRs = cidrs }
	}
	runChanges(t, []change[*v1alpha1.VPC]{
		{name: "growing over a service range", who: who, object: vpc("avoids"), edit: ranges("10.96.0.0/15"), refused: "the cluster's service range 10.96.0.0/16"},
		{
			name:    "growing over a service range that was added later",
			who:     who,
			object:  vpc("avoids"),
			edit:    ranges("10.97.0.0/17", "10.77.0.0/20"),
			refused: `(ServiceCIDR "added")`,
		},
		{
			name:    "growing over the shadow range",
			who:     who,
			object:  vpc("avoids"),
			edit:    ranges("10.97.0.0/17", "fd41:6c69:6f74:6801::/64"),
			refused: "shadow addresses",
		},
		{name: "growing beside them", who: who, object: vpc("avoids"), edit: ranges("10.97.0.0/16")},
		{name: "growing, by the operator", who: operator(), object: vpc("avoids"), edit: ranges("10.96.0.0/15"), refused: "must not overlap", except: byUpdate},
	})
}

// TestChartVPC_ParametersUnread_Accepted: it is created when the API server may not have read any
// parameter yet, which refuses everything else. The operator checks the same ranges.
func TestChartVPC_ParametersUnread_Accepted(t *testing.T) {
	admin := start(t)
	who := clusterAdmin()
	create(t, admin, subnet("own-have", "default", "", "10.244.1.0/24"))
	inside := `must not overlap the subnet "own-have"`
	run(t, slices.Concat(
		creations(t, "its subnet", who, subnet("default", "default", "", "10.244.0.0/16"), ""),
		creations(t, "another subnet of it", who, subnet("own-more", "default", "", "10.244.0.0/16"), inside),
		creations(t, "the VPC over a service range", who, vpc("default", "10.96.0.0/16"), "must not overlap"),
	))
	establish(t, admin, subnet("default", "default", "", "10.244.0.0/24"))
	runChanges(t, []change[*v1alpha1.Subnet]{
		{
			name:    "its subnet, changed later",
			who:     who,
			object:  subnet("default", "", ""),
			edit:    func(s *v1alpha1.Subnet) { s.Spec.CIDRs = []string{"10.244.0.0/16"} },
			refused: inside,
		},
	})
}
