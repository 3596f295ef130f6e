// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
)

func network() *arktosv1.Network {
	return &arktosv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "vpc-1"},
		Spec:       arktosv1.NetworkSpec{Type: arktosv1.TypeMizar, VPCID: "vpc-1a2b3c4d"},
	}
}

func TestNetwork_WrongValue_Refused(t *testing.T) {
	checkCreations(t, network, []creation[*arktosv1.Network]{
		{"as it is", nil, ""},
		{"the other name of the type", func(n *arktosv1.Network) { n.Spec.Type = arktosv1.TypeVPC }, ""},
		{"Arktos' type without a VPC", func(n *arktosv1.Network) { n.Spec.Type, n.Spec.VPCID = arktosv1.TypeFlat, "Any" }, ""},
		{"a misspelled type", func(n *arktosv1.Network) { n.Spec.Type = "mizzar" }, "spec.type must be vpc or mizar, which Alioth serves, or flat"},
		{"a type in capitals", func(n *arktosv1.Network) { n.Spec.Type = "VPC" }, "spec.type must be vpc or mizar"},
		{"no type", func(n *arktosv1.Network) { n.Spec.Type = "" }, "spec.type"},
		{"no VPC", func(n *arktosv1.Network) { n.Spec.VPCID = "" }, "spec.vpcID"},
		{"a name that no VPC has", func(n *arktosv1.Network) { n.Spec.VPCID = "vpc.1" }, "spec.vpcID must be the name of a VPC"},
		{"a VPC in capitals", func(n *arktosv1.Network) { n.Spec.VPCID = "Vpc-1" }, "spec.vpcID must be the name of a VPC"},
		{"the longest name that a label has", func(n *arktosv1.Network) { n.Name = strings.Repeat("n", 63) }, ""},
		{
			"a name longer than any label",
			func(n *arktosv1.Network) { n.Name = strings.Repeat("n", 64) },
			"the name of a Network must not be longer than 63 characters",
		},
		{"a VPC's name that is too long", func(n *arktosv1.Network) { n.Spec.VPCID = strings.Repeat("v", 64) }, "spec.vpcID"},
	})
}

func TestNetwork_VPCChanged_Accepted(t *testing.T) {
	checkUpdates(t, network, []update[*arktosv1.Network]{
		{name: "another VPC", mutate: func(n *arktosv1.Network) { n.Spec.VPCID = "other" }, want: ""},
		{name: "no VPC any more", mutate: func(n *arktosv1.Network) { n.Spec.VPCID = "" }, want: "spec.vpcID"},
	})
}
