// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"fmt"
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

// editing changes an object that exists.
func editing[T client.Object](object T, edit func(T)) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return fmt.Errorf("read the object: %w", err)
		}
		edit(object)
		return c.Update(ctx, object, client.DryRunAll)
	}
}

func TestSubnetLiesInsideItsVPC(t *testing.T) {
	admin := start(t)
	who := clusterAdmin()
	create(t, admin, vpc("in", "10.10.0.0/16", "10.11.0.0/16", "fd10:10::/48"))
	create(t, admin, subnet("in-have", "in", "", "10.10.9.0/24"))
	// Without subnets, so that one policy alone can refuse.
	create(t, admin, vpc("in-empty", "10.10.0.0/16", "10.11.0.0/16"))
	run(t, []attempt{
		{"outside", who, creating(subnet("s", "in", "", "10.12.1.0/24")), `inside the ranges of the VPC "in"`},
		{"wider than the VPC", who, creating(subnet("s", "in-empty", "", "10.8.0.0/13")), `inside the ranges of the VPC "in-empty"`},
		{"across two ranges of the VPC", who, creating(subnet("s", "in-empty", "", "10.10.0.0/15")), `inside the ranges`},
		{"one family outside", who, creating(subnet("s", "in", "", "10.10.1.0/24", "fd10:11::/64")), `inside the ranges`},
		{"inside in both families", who, creating(subnet("s", "in", "", "10.10.1.0/24", "fd10:10:0:1::/64")), ""},
		{"a whole range of the VPC", who, creating(subnet("s", "in", "", "10.11.0.0/16")), ""},
		{"of a VPC that is not there yet", who, creating(subnet("s", "in-future", "", "10.99.0.0/24")), ""},
		{"grown out of the VPC", who, editing(subnet("in-have", "", ""), func(s *v1alpha1.Subnet) { s.Spec.CIDRs = []string{"10.0.0.0/8"} }), "inside the ranges"},
		{"grown within the VPC", who, editing(subnet("in-have", "", ""), func(s *v1alpha1.Subnet) { s.Spec.CIDRs = []string{"10.10.8.0/23"} }), ""},
	})
}

func TestSubnetsOfOneVPCStayApart(t *testing.T) {
	admin := start(t)
	who := clusterAdmin()
	create(t, admin, subnet("apart-one", "apart", "net1", "10.20.1.0/24", "fd20:0:0:1::/64"))
	create(t, admin, subnet("apart-two", "apart", "", "10.20.4.0/24"))
	run(t, []attempt{
		{"the same range", who, creating(subnet("s", "apart", "", "10.20.1.0/24")), `must not overlap the subnet "apart-one"`},
		{"a part of it", who, creating(subnet("s", "apart", "", "10.20.1.128/25")), `must not overlap`},
		{"around it", who, creating(subnet("s", "apart", "", "10.20.0.0/22")), `must not overlap`},
		{"in the other family only", who, creating(subnet("s", "apart", "", "10.20.2.0/24", "fd20::/56")), `must not overlap`},
		{"beside it", who, creating(subnet("s", "apart", "", "10.20.2.0/24", "fd20:0:0:2::/64")), ""},
		{"the same range in another VPC", who, creating(subnet("s", "elsewhere", "net1", "10.20.1.0/24")), ""},
		{"the same name", who, creating(subnet("s", "apart", "net1", "10.20.3.0/24")), `already has a subnet named "net1"`},
		{"the name of another's object", who, creating(subnet("s", "apart", "apart-two", "10.20.3.0/24")), `already has a subnet named "apart-two"`},
		{"an object name that is another's name", who, creating(subnet("net1", "apart", "", "10.20.3.0/24")), `already has a subnet named "net1"`},
		{"grown into another", who, editing(subnet("apart-two", "", ""), func(s *v1alpha1.Subnet) { s.Spec.CIDRs = []string{"10.20.0.0/21"} }), `must not overlap`},
		{"grown beside the other", who, editing(subnet("apart-two", "", ""), func(s *v1alpha1.Subnet) { s.Spec.CIDRs = []string{"10.20.4.0/22"} }), ""},
		{"renamed to another's name", who, editing(subnet("apart-two", "", ""), func(s *v1alpha1.Subnet) { s.Spec.Name = "net1" }), `already has a subnet`},
	})
}

// TestConflictThatHappenedStaysEditable: two that were created at one moment
// may overlap; they must still lose their finalizers.
func TestConflictThatHappenedStaysEditable(t *testing.T) {
	admin := start(t)
	create(t, admin, subnet("late-one", "late", "", "10.30.0.0/24"))
	create(t, admin, vpc("late", "10.99.0.0/16"))
	who := clusterAdmin()
	run(t, []attempt{
		{"outside when its ranges change", who, editing(subnet("late-one", "", ""), func(s *v1alpha1.Subnet) { s.Spec.CIDRs = []string{"10.30.0.0/23"} }), "inside the ranges"},
		{"labels", who, editing(subnet("late-one", "", ""), func(s *v1alpha1.Subnet) { s.Labels = map[string]string{"a": "b"} }), ""},
		{"finalizers, by the operator", operator(), editing(subnet("late-one", "", ""), func(s *v1alpha1.Subnet) { s.Finalizers = []string{v1alpha1.Finalizer} }), ""},
		{"the VPC may grow without reaching it", who, editing(vpc("late"), func(v *v1alpha1.VPC) { v.Spec.CIDRs = []string{"10.98.0.0/15"} }), ""},
	})
}

func TestVPCKeepsItsSubnets(t *testing.T) {
	admin := start(t)
	who := clusterAdmin()
	create(t, admin, vpc("keeps", "10.40.0.0/16", "10.41.0.0/16"))
	create(t, admin, subnet("keeps-one", "keeps", "", "10.40.1.0/24"))
	ranges := func(cidrs ...string) func(*v1alpha1.VPC) {
		return func(v *v1alpha1.VPC) { v.Spec.CIDRs = cidrs }
	}
	run(t, []attempt{
		{"losing a subnet's range", who, editing(vpc("keeps"), ranges("10.41.0.0/16")), `must still contain the subnet "keeps-one"`},
		{"shrinking below a subnet", who, editing(vpc("keeps"), ranges("10.40.0.0/24", "10.41.0.0/16")), `must still contain`},
		{"losing an unused range", who, editing(vpc("keeps"), ranges("10.40.0.0/16")), ""},
		{"shrinking around the subnet", who, editing(vpc("keeps"), ranges("10.40.0.0/20")), ""},
		{"growing", who, editing(vpc("keeps"), ranges("10.40.0.0/14")), ""},
	})
}

func TestVPCAvoidsTheClustersRanges(t *testing.T) {
	admin := start(t)
	who := clusterAdmin()
	create(t, admin, &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "added"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.77.0.0/24"}},
	})
	run(t, []attempt{
		{"a service range", who, creating(vpc("v", "10.96.128.0/24")), "the cluster's service range 10.96.0.0/16"},
		{"around a service range", who, creating(vpc("v", "10.0.0.0/8")), "must not overlap"},
		{"an IPv6 service range", who, creating(vpc("v", "10.1.0.0/16", "fd96::/64")), "must not overlap"},
		{"a service range that was added later", who, creating(vpc("v", "10.77.0.0/16")), `(ServiceCIDR "added")`},
		{"the IPv6 shadow range", who, creating(vpc("v", "fd41:6c69:6f74::/48")), "shadow addresses"},
		{"what another VPC has", who, creating(vpc("v", "10.10.0.0/16")), ""},
		{"the nodes' network", who, creating(vpc("v", "192.168.0.0/16")), ""},
	})
}
