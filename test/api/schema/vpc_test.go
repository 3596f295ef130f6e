// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func vpc() *v1alpha1.VPC {
	return &v1alpha1.VPC{
		ObjectMeta: named("vpc-1a2b3c4d"),
		Spec:       v1alpha1.VPCSpec{CIDRs: []string{"10.10.0.0/16", "fd10:10::/48"}, AllowedTenants: []string{"customer-a"}},
	}
}

func vpcRanges(cidrs ...string) func(*v1alpha1.VPC) {
	return func(v *v1alpha1.VPC) { v.Spec.CIDRs = cidrs }
}

func lists(allow, deny []string) func(*v1alpha1.VPC) {
	return func(v *v1alpha1.VPC) { v.Spec.EgressAllow, v.Spec.EgressDeny = allow, deny }
}

func manyHosts(n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("203.0.113.%d/32", i))
	}
	return list
}

func number(n int32) *int32 { return &n }

func TestVPC_WrongValue_Refused(t *testing.T) {
	const (
		canonical = "each entry must be a canonical CIDR"
		length    = "an IPv4 range must be /8 to /29, an IPv6 range /32 to /120"
		reserved4 = "0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16 and 224.0.0.0/3 are reserved"
		reserved6 = "::/8, fe80::/10 and ff00::/8 are reserved"
		overlap   = "the ranges of one VPC must not overlap each other"
		dnsLabel  = "the name of a VPC must be a DNS label"
	)
	var sixteen, seventeen []string
	for i := range 17 {
		seventeen = append(seventeen, fmt.Sprintf("10.%d.0.0/16", i))
	}
	sixteen = seventeen[:16]
	checkCreations(t, vpc, []creation[*v1alpha1.VPC]{
		{"as it is", nil, ""},
		{"the longest name", func(v *v1alpha1.VPC) { v.Name = strings.Repeat("a", 63) }, ""},
		{"a longer name", func(v *v1alpha1.VPC) { v.Name = strings.Repeat("a", 64) }, dnsLabel},
		{"a name with a dot", func(v *v1alpha1.VPC) { v.Name = "a.b" }, dnsLabel},
		{"no range", vpcRanges(), "Required value"},
		{"an empty list of ranges", vpcRanges([]string{}...), "should have at least 1 items"},
		{"16 ranges", vpcRanges(sixteen...), ""},
		{"17 ranges", vpcRanges(seventeen...), "must have at most 16 items"},
		{"one family", vpcRanges("fd10:10::/48"), ""},
		{"host bits", vpcRanges("10.10.0.1/16"), canonical},
		{"no length", vpcRanges("10.10.0.0"), canonical},
		{"leading zeros", vpcRanges("10.010.0.0/16"), canonical},
		{"IPv6 host bits", vpcRanges("fd10:10::1/48"), canonical},
		{"IPv6 in capitals", vpcRanges("FD10:10::/48"), canonical},
		{"IPv6 not shortened", vpcRanges("fd10:10:0::/48"), canonical},
		{"no address at all", vpcRanges("ten"), canonical},
		{"an IPv4 /7", vpcRanges("10.0.0.0/7"), length},
		{"an IPv4 /8", vpcRanges("10.0.0.0/8"), ""},
		{"an IPv4 /29", vpcRanges("10.0.0.0/29"), ""},
		{"an IPv4 /30", vpcRanges("10.0.0.0/30"), length},
		{"an IPv6 /31", vpcRanges("fd10::/31"), length},
		{"an IPv6 /32", vpcRanges("fd10::/32"), ""},
		{"an IPv6 /120", vpcRanges("fd10::/120"), ""},
		{"an IPv6 /121", vpcRanges("fd10::/121"), length},
		{"this network", vpcRanges("0.1.0.0/16"), reserved4},
		{"loopback", vpcRanges("127.0.0.0/8"), reserved4},
		{"link-local", vpcRanges("169.254.1.0/24"), reserved4},
		{"around link-local", vpcRanges("169.0.0.0/8"), reserved4},
		{"multicast", vpcRanges("224.1.0.0/16"), reserved4},
		{"the class that nobody uses", vpcRanges("240.0.0.0/8"), reserved4},
		{"beside multicast", vpcRanges("223.0.0.0/8"), ""},
		{"IPv6 around loopback", vpcRanges("::/32"), reserved6},
		{"IPv4 in IPv6", vpcRanges("64:ff9b::/96"), reserved6},
		{"IPv6 link-local", vpcRanges("fe80::/64"), reserved6},
		{"IPv6 multicast", vpcRanges("ff05::/32"), reserved6},
		{"ranges inside each other", vpcRanges("10.10.0.0/16", "10.10.1.0/24"), overlap},
		{"ranges side by side", vpcRanges("10.10.0.0/17", "10.10.128.0/17"), ""},
		{"one range twice", vpcRanges("10.10.0.0/16", "10.10.0.0/16"), "Duplicate value"},
		{"no tenant", func(v *v1alpha1.VPC) { v.Spec.AllowedTenants = nil }, ""},
		{"every namespace without a label", func(v *v1alpha1.VPC) { v.Spec.AllowedTenants = []string{v1alpha1.AnyUnlabelled, "customer-a"} }, ""},
		{"one of them", func(v *v1alpha1.VPC) { v.Spec.AllowedTenants = []string{"ns:shop"} }, ""},
		{"another pattern", func(v *v1alpha1.VPC) { v.Spec.AllowedTenants = []string{"customer-*"} }, "the only patterns are"},
		{"every tenant", func(v *v1alpha1.VPC) { v.Spec.AllowedTenants = []string{v1alpha1.AnyTenant} }, ""},
		{"a tenant without a name", func(v *v1alpha1.VPC) { v.Spec.AllowedTenants = []string{""} }, "allowedTenants"},
		{"one tenant twice", func(v *v1alpha1.VPC) { v.Spec.AllowedTenants = []string{"a", "a"} }, "Duplicate value"},
		{"destinations allowed and denied", lists([]string{"0.0.0.0/0", "169.254.169.254/32"}, []string{"::/0", "203.0.113.0/24"}), ""},
		{"an empty list of allowed destinations", func(v *v1alpha1.VPC) { v.Spec.EgressAllow = []string{} }, ""}, // as good as none: the client leaves it out
		{"an allowed destination with host bits", lists([]string{"203.0.113.1/24"}, nil), canonical},
		{"an allowed destination without length", lists([]string{"203.0.113.1"}, nil), canonical},
		{"a denied destination with host bits", lists(nil, []string{"2001:db8::1/32"}), canonical},
		{"a denied destination that is a name", lists(nil, []string{"example.com"}), canonical},
		{"a destination twice", lists(nil, []string{"203.0.113.0/24", "203.0.113.0/24"}), "Duplicate value"},
		{"33 allowed destinations", lists(manyHosts(33), nil), "must have at most 32 items"},
		{"32 of each", lists(manyHosts(32), manyHosts(32)), ""},
		{"masquerade", func(v *v1alpha1.VPC) { v.Spec.Egress = v1alpha1.EgressMasquerade }, ""},
		{"another egress", func(v *v1alpha1.VPC) { v.Spec.Egress = "All" }, "Unsupported value"},
		{"the least VNI", func(v *v1alpha1.VPC) { v.Spec.VNI = number(1) }, ""},
		{"VNI 0", func(v *v1alpha1.VPC) { v.Spec.VNI = number(0) }, "greater than or equal to 1"},
		{"the greatest VNI", func(v *v1alpha1.VPC) { v.Spec.VNI = number(1<<24 - 1) }, ""},
		{"a VNI of 25 bits", func(v *v1alpha1.VPC) { v.Spec.VNI = number(1 << 24) }, "less than or equal to 16777215"},
		{"one divider", func(v *v1alpha1.VPC) { v.Spec.Dividers = number(1) }, ""},
		{"no divider", func(v *v1alpha1.VPC) { v.Spec.Dividers = number(0) }, "greater than or equal to 1"},
		{"65 dividers", func(v *v1alpha1.VPC) { v.Spec.Dividers = number(65) }, "less than or equal to 64"},
	})
}

func TestVPC_VNIChanged_Refused(t *testing.T) {
	const fixed = "spec.vni can't change"
	withVNI := func(v *v1alpha1.VPC) { v.Spec.VNI = number(7) }
	checkUpdates(t, vpc, []update[*v1alpha1.VPC]{
		{name: "grows", mutate: vpcRanges("10.10.0.0/15", "fd10:10::/48"), want: ""},
		{name: "gets a range", mutate: vpcRanges("10.10.0.0/16", "fd10:10::/48", "10.99.0.0/16"), want: ""},
		{name: "gets a wrong range", mutate: vpcRanges("10.10.0.0/15", "127.0.0.0/8"), want: "are reserved"},
		{name: "opens to another tenant", mutate: func(v *v1alpha1.VPC) { v.Spec.AllowedTenants = []string{"b"} }, want: ""},
		{name: "asks for a VNI later", mutate: withVNI, want: ""},
		{name: "asks for another VNI", before: withVNI, mutate: func(v *v1alpha1.VPC) { v.Spec.VNI = number(8) }, want: fixed},
		{name: "asks for no VNI any more", before: withVNI, mutate: func(v *v1alpha1.VPC) { v.Spec.VNI = nil }, want: fixed},
		{name: "keeps its VNI", before: withVNI, mutate: func(v *v1alpha1.VPC) { v.Spec.Egress = v1alpha1.EgressMasquerade }, want: ""},
	})
}

func TestVPC_Defaults_ClosedForAll(t *testing.T) {
	c := newClient(t)
	object := &v1alpha1.VPC{ObjectMeta: named("closed"), Spec: v1alpha1.VPCSpec{CIDRs: []string{"10.0.0.0/8"}}}
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if object.Spec.Egress != v1alpha1.EgressNone || len(object.Spec.AllowedTenants) != 0 {
		t.Errorf("egress is %q for tenants %q, want None for nobody", object.Spec.Egress, object.Spec.AllowedTenants)
	}
}
