// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func subnet() *v1alpha1.Subnet {
	return &v1alpha1.Subnet{
		ObjectMeta: named("customer-a-net1"),
		Spec:       v1alpha1.SubnetSpec{VPC: "vpc-1a2b3c4d", Name: "net1", CIDRs: []string{"10.10.1.0/24", "fd10:10:0:1::/64"}},
	}
}

func subnetRanges(cidrs ...string) func(*v1alpha1.Subnet) {
	return func(s *v1alpha1.Subnet) { s.Spec.CIDRs = cidrs }
}

func gateways(list ...string) func(*v1alpha1.Subnet) {
	return func(s *v1alpha1.Subnet) { s.Spec.Gateway = list }
}

func reserved(list ...string) func(*v1alpha1.Subnet) {
	return func(s *v1alpha1.Subnet) { s.Spec.Reserved = list }
}

func shortName(name string) func(*v1alpha1.Subnet) {
	return func(s *v1alpha1.Subnet) { s.Spec.Name = name }
}

func use(what v1alpha1.SubnetUse) func(*v1alpha1.Subnet) {
	return func(s *v1alpha1.Subnet) { s.Spec.Use = what }
}

func both[T any](one, other func(T)) func(T) {
	return func(object T) { one(object); other(object) }
}

func TestSubnet_WrongValue_Refused(t *testing.T) {
	const (
		canonical = "each entry must be a canonical CIDR"
		length    = "an IPv4 range must be /8 to /29, an IPv6 range /32 to /120"
		families  = "at most one range per address family"
		inside    = "each gateway must be an address inside spec.cidrs"
		form      = "each entry must be an address, a CIDR, or a range"
	)
	checkCreations(t, subnet, []creation[*v1alpha1.Subnet]{
		{"as it is", nil, ""},
		{"no VPC", func(s *v1alpha1.Subnet) { s.Spec.VPC = "" }, "spec.vpc"},
		{"no name of its own", shortName(""), ""},
		{"a name in capitals", shortName("Net1"), "spec.name"},
		{"a name with a dot", shortName("net.1"), "spec.name"},
		{"a name that is too long", shortName(strings.Repeat("n", 64)), "spec.name"},
		{"no range", subnetRanges(), "Required value"},
		{"an empty list of ranges", subnetRanges([]string{}...), "should have at least 1 items"},
		{"one family", subnetRanges("fd10:10:0:1::/64"), ""},
		{"two ranges of a family", subnetRanges("10.10.1.0/24", "10.10.2.0/24"), families},
		{"three ranges", subnetRanges("10.10.1.0/24", "fd10::/64", "10.10.2.0/24"), "must have at most 2 items"},
		{"host bits", subnetRanges("10.10.1.1/24"), canonical},
		{"IPv6 not shortened", subnetRanges("fd10:10:0:1:0::/64"), canonical},
		{"no address at all", subnetRanges("net1"), canonical},
		{"an IPv4 /30", subnetRanges("10.10.1.0/30"), length},
		{"an IPv6 /121", subnetRanges("fd10::/121"), length},
		{"gateways", gateways("10.10.1.254", "fd10:10:0:1::ff"), ""},
		{"one gateway", gateways("10.10.1.254"), ""},
		{"a gateway outside", gateways("10.10.2.1"), inside},
		{"a gateway that is none", gateways("gw"), inside},
		{"two gateways of a family", gateways("10.10.1.1", "10.10.1.2"), "at most one gateway per address family"},
		{"the network address as gateway", gateways("10.10.1.0"), "must not be the first address"},
		{"the first IPv6 address as gateway", gateways("fd10:10:0:1::"), "must not be the first address"},
		{"the broadcast address as gateway", gateways("10.10.1.255"), "must not be the last address"},
		{"the last IPv6 address as gateway", gateways("fd10:10:0:1:ffff:ffff:ffff:ffff"), ""},
		{"the broadcast address of a range in the middle of an octet", both(subnetRanges("10.43.1.8/29"), gateways("10.43.1.15")), "must not be the last address"},
		{"the network address of a range in the middle of an octet", both(subnetRanges("10.43.1.8/29"), gateways("10.43.1.8")), "must not be the first address"},
		{"the addresses beside them", both(subnetRanges("10.43.1.8/29"), gateways("10.43.1.14")), ""},
		{"the broadcast address of the largest range", both(subnetRanges("10.0.0.0/8"), gateways("10.255.255.255")), "must not be the last address"},
		{"the last address of a part of the range", both(subnetRanges("10.0.0.0/8"), gateways("10.0.0.255")), ""},
		{"a VPC's name with a dot", func(s *v1alpha1.Subnet) { s.Spec.VPC = "vpc.a" }, "spec.vpc"},
		{"reserved with host bits", both(subnetRanges("10.43.3.0/29"), reserved("10.43.3.5/29")), "a CIDR must not have host bits"},
		{"reserved IPv6 with host bits", reserved("fd10:10:0:1::9/112"), "a CIDR must not have host bits"},
		{"reserved outside", reserved("10.10.2.5"), "must be inside spec.cidrs"},
		{"a reserved CIDR outside", reserved("10.10.2.0/28"), "must be inside spec.cidrs"},
		{"a reserved range outside", reserved("10.10.2.5-10.10.2.9"), "must be inside spec.cidrs"},
		{"a reserved range with one end inside", reserved("10.10.1.250-10.10.2.9"), ""},
		{"a reserved CIDR around the range", reserved("10.10.0.0/16"), ""},
		{"reserved addresses of every form", reserved("10.10.1.5", "10.10.1.64/28", "10.10.1.2-10.10.1.9", "fd10:10:0:1::2-fd10:10:0:1::9"), ""},
		{"a reserved word", reserved("ten"), form},
		{"a reserved range across families", reserved("10.10.1.2-fd10::9"), form},
		{"a reserved range without an end", reserved("10.10.1.2-"), form},
		{"a reserved range in three parts", reserved("10.10.1.2-10.10.1.3-10.10.1.4"), form},
		{"for Services", use(v1alpha1.SubnetForServices), ""},
		{"for nobody", use("Nobody"), "Unsupported value"},
		{"one bouncer", func(s *v1alpha1.Subnet) { s.Spec.Bouncers = number(1) }, ""},
		{"no bouncer", func(s *v1alpha1.Subnet) { s.Spec.Bouncers = number(0) }, "greater than or equal to 1"},
		{"65 bouncers", func(s *v1alpha1.Subnet) { s.Spec.Bouncers = number(65) }, "less than or equal to 64"},
	})
}

func TestSubnet_ShrinksWhileAddressesHeld_Refused(t *testing.T) {
	const grow = "may only grow while addresses of the subnet are held"
	held := func(s *v1alpha1.Subnet) { s.Status.InUse = true }
	empty := func(s *v1alpha1.Subnet) { s.Status.InUse = false }
	checkUpdates(t, subnet, []update[*v1alpha1.Subnet]{
		{name: "another VPC", mutate: func(s *v1alpha1.Subnet) { s.Spec.VPC = "other" }, want: "spec.vpc can't change"},
		{name: "changes its use", mutate: use(v1alpha1.SubnetForServices), want: "spec.use can't change"},
		{name: "says what its use is", mutate: use(v1alpha1.SubnetForPods), want: ""},
		{name: "grows", status: held, mutate: subnetRanges("10.10.0.0/23", "fd10:10:0:1::/64"), want: ""},
		{name: "grows by a family", before: subnetRanges("10.10.1.0/24"), status: held, mutate: subnetRanges("10.10.1.0/24", "fd10:10:0:1::/64"), want: ""},
		{name: "grows, in another order", status: held, mutate: subnetRanges("fd10:10:0:1::/64", "10.10.0.0/16"), want: ""},
		{name: "shrinks", status: held, mutate: subnetRanges("10.10.1.0/25", "fd10:10:0:1::/64"), want: grow},
		{name: "loses a family", status: held, mutate: subnetRanges("10.10.1.0/24"), want: grow},
		{name: "moves", status: held, mutate: subnetRanges("10.10.2.0/24", "fd10:10:0:1::/64"), want: grow},
		{name: "shrinks while empty", status: empty, mutate: subnetRanges("10.10.1.0/25"), want: ""},
		{name: "shrinks before anybody saw it", mutate: subnetRanges("10.10.1.0/25"), want: ""},
		{name: "gets a gateway outside", mutate: gateways("10.10.9.1"), want: "inside spec.cidrs"},
		{name: "gets reserved addresses", status: held, mutate: reserved("10.10.1.9"), want: ""},
	})
}
