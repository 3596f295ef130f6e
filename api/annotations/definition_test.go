// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
)

func TestDefinitionOf_Annotations_TargetRead(t *testing.T) {
	const network, kuryr, resource = annotations.NetworkKey, annotations.KuryrConfigKey, annotations.ResourceNameKey
	target := func(kind, name, subnet string) annotations.Definition {
		return annotations.Definition{Target: annotations.Target{Kind: kind, Name: name, Subnet: subnet}}
	}
	for name, test := range map[string]struct {
		annotations map[string]string
		want        annotations.Definition
	}{
		"none":                      {nil, annotations.Definition{}},
		"annotations of others":     {map[string]string{"x/network": "{", network + "s": "{"}, annotations.Definition{}},
		"a VPC and a subnet":        {map[string]string{network: ` {"vpc": "blue", "subnet": "net1"} `}, target("VPC", "blue", "net1")},
		"a VPC":                     {map[string]string{network: `{"vpc": "blue"}`}, target("VPC", "blue", "")},
		"a DanmNet":                 {map[string]string{network: `{"network": "n"}`}, target("DanmNet", "n", "")},
		"a TenantNetwork":           {map[string]string{network: `{"tenantNetwork": "n.x"}`}, target("TenantNetwork", "n.x", "")},
		"a ClusterNetwork":          {map[string]string{network: `{"clusterNetwork": "n"}`}, target("ClusterNetwork", "n", "")},
		"Kuryr's document":          {map[string]string{kuryr: "{\n\"subnetId\": \"id-of-subnet\"\n}"}, target("VPC", "", "id-of-subnet")},
		"Kuryr, the driver ignored": {map[string]string{kuryr: `{"subnetId": "id", "driverType": "sriov"}`}, target("VPC", "", "id")},
		"a resource":                {map[string]string{resource: "vendor.example/nic_1"}, annotations.Definition{ResourceName: "vendor.example/nic_1"}},
		"a resource and a network": {
			map[string]string{resource: "nokia.k8s.io/sriov_ens1f0", network: `{"clusterNetwork": "n"}`},
			annotations.Definition{Target: annotations.Target{Kind: "ClusterNetwork", Name: "n"}, ResourceName: "nokia.k8s.io/sriov_ens1f0"},
		},
		"settings of virtual functions": {
			map[string]string{network: `{"clusterNetwork": "n"}`, annotations.VFKey: `{"trust":"on"}`},
			annotations.Definition{Target: annotations.Target{Kind: "ClusterNetwork", Name: "n"}, VF: netif.VF{Trust: "on"}},
		},
	} {
		got, err := annotations.DefinitionOf(test.annotations)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDefinitionOf_WrongAnnotations_RefusedWithCause(t *testing.T) {
	const network, kuryr, resource = annotations.NetworkKey, annotations.KuryrConfigKey, annotations.ResourceNameKey
	for name, test := range map[string]struct {
		annotations map[string]string
		cause       string
	}{
		"both annotations":             {map[string]string{network: `{"vpc": "blue"}`, kuryr: `{"subnetId": "id"}`}, "both name a network: keep one of them"},
		"settings without a network":   {map[string]string{annotations.VFKey: `{}`}, "name one in alioth.dev/network"},
		"settings in a VPC":            {map[string]string{network: `{"vpc": "blue"}`, annotations.VFKey: `{}`}, "definitions that name a network of type sriov"},
		"unusable settings":            {map[string]string{network: `{"network": "n"}`, annotations.VFKey: `{"trust":1}`}, "annotation alioth.dev/sriov"},
		"a blank text":                 {map[string]string{network: " "}, `want a JSON object such as {"vpc": "blue"`},
		"a list":                       {map[string]string{network: `[{"vpc": "blue"}]`}, "'{'"},
		"a name":                       {map[string]string{network: "blue"}, "'{'"},
		"text behind":                  {map[string]string{network: `{"vpc": "blue"} {}`}, "after top-level value"},
		"nothing":                      {map[string]string{network: `{}`}, "names 0 networks"},
		"a subnet alone":               {map[string]string{network: `{"subnet": "net1"}`}, "names 0 networks"},
		"two networks":                 {map[string]string{network: `{"vpc": "blue", "network": "n"}`}, "names 2 networks"},
		"a subnet of a network":        {map[string]string{network: `{"network": "n", "subnet": "s"}`}, `"subnet" is for "vpc" only`},
		"a subnet that is made for it": {map[string]string{network: `{"vpc": "blue", "cidr": "10.10.1.0/24"}`}, `unknown field "cidr"`},
		"Kuryr, a subnet made for it":  {map[string]string{kuryr: `{"cidr": "10.10.1.0/24"}`}, `unknown field "cidr"`},
		"an unknown key":               {map[string]string{network: `{"vpc": "blue", "ip": "dynamic"}`}, `unknown field "ip"`},
		"a key in another case":        {map[string]string{network: `{"VPC": "blue"}`}, `unknown field "VPC"`},
		"a key twice":                  {map[string]string{network: `{"vpc": "blue", "vpc": "red"}`}, "duplicate field"},
		"another namespace":            {map[string]string{network: `{"network": "a/n"}`}, "is no object name"},
		"Kuryr, blank":                 {map[string]string{kuryr: ""}, `want a JSON object such as {"subnetId"`},
		"Kuryr without subnet":         {map[string]string{kuryr: `{"driverType": "sriov"}`}, `"subnetId" is missing`},
		"Kuryr, a bad subnet":          {map[string]string{kuryr: `{"subnetId": "a/b"}`}, `subnet "a/b" is no object name`},
		"Kuryr, an unknown key":        {map[string]string{kuryr: `{"subnetId": "a", "subnetID": "b"}`}, "unknown field"},
		"a resource without domain":    {map[string]string{resource: "nic"}, "no extended resource such as vendor.example/nic"},
		"a blank resource":             {map[string]string{resource: ""}, "no extended resource"},
		"a resource as a path":         {map[string]string{resource: "vendor.example/../nic"}, "no extended resource"},
		"a resource with two parts":    {map[string]string{resource: "vendor.example/a/b"}, "no extended resource"},
		"a resource of dots":           {map[string]string{resource: "../.."}, "no extended resource"},
		"a resource with a newline":    {map[string]string{resource: "vendor.example/nic\n"}, "no extended resource"},
		"a resource that is too long":  {map[string]string{resource: strings.Repeat("a.", 130) + "b/nic" + strings.Repeat("c", 60)}, "no extended resource"},
	} {
		got, err := annotations.DefinitionOf(test.annotations)
		if err == nil {
			t.Errorf("%s: accepted as %+v", name, got)
		} else if !strings.Contains(err.Error(), test.cause) {
			t.Errorf("%s: error is %q, want it to contain %q", name, err, test.cause)
		}
	}
}

// FuzzDefinitionOf looks for a panic, and for accepted texts whose meaning changes when
// they are written out and read again.
func FuzzDefinitionOf(f *testing.F) {
	f.Add(`{"vpc":"blue","subnet":"net1"}`, true, "vendor.example/nic")
	f.Add(`{"subnetId":"id","driverType":"x"}`, false, "a/b")
	f.Add(`{"tenantNetwork":"n","vpc":""}`, true, "../x")
	keys := map[string]string{"DanmNet": "network", "TenantNetwork": "tenantNetwork", "ClusterNetwork": "clusterNetwork", "VPC": "vpc"}
	f.Fuzz(func(t *testing.T, text string, own bool, resource string) {
		key := annotations.KuryrConfigKey
		if own {
			key = annotations.NetworkKey
		}
		definition, err := annotations.DefinitionOf(map[string]string{key: text, annotations.ResourceNameKey: resource})
		if err != nil {
			return
		}
		target := definition.Target
		values := map[string]string{"subnetId": target.Subnet}
		if own {
			values = map[string]string{keys[target.Kind]: target.Name, "subnet": target.Subnet}
		}
		again, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		got, err := annotations.DefinitionOf(map[string]string{key: string(again), annotations.ResourceNameKey: definition.ResourceName})
		if err != nil {
			t.Fatalf("%q was accepted, %s isn't: %v", text, again, err)
		}
		if diff := cmp.Diff(definition, got); diff != "" {
			t.Fatalf("%q (-first +second):\n%s", text, diff)
		}
	})
}
