// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/annotations"
)

func network(kind, name string) annotations.NetworkName {
	return annotations.NetworkName{Kind: kind, Name: name}
}

func TestEndpointsOf_ServiceAnnotations_Read(t *testing.T) {
	web := map[string]string{"app": "web"}
	for name, c := range map[string]struct {
		annotations map[string]string
		want        *annotations.Endpoints
	}{
		"none":            {nil, nil},
		"those of others": {map[string]string{"danm.k8s.io/interfaces": "[]", "example.com/selector": "{"}, nil},
		"a DanmNet": {
			map[string]string{"danm.k8s.io/selector": `{"app": "web"}`, "danm.k8s.io/network": "external"},
			&annotations.Endpoints{Selector: web, Networks: []annotations.NetworkName{network("DanmNet", "external")}},
		},
		"the prefix of the successors": {
			map[string]string{"danm.io/selector": `{"app": "web"}`, "danm.io/tenantNetwork": "external"},
			&annotations.Endpoints{Selector: web, Networks: []annotations.NetworkName{network("TenantNetwork", "external")}},
		},
		"both prefixes, alike": {
			map[string]string{"danm.io/selector": `{"app": "web"}`, "danm.k8s.io/selector": `{"app": "web"}`, "danm.io/clusterNetwork": "c"},
			&annotations.Endpoints{Selector: web, Networks: []annotations.NetworkName{network("ClusterNetwork", "c")}},
		},
		"several networks, each once": {
			map[string]string{"danm.k8s.io/selector": `{"app": "web"}`, "danm.k8s.io/network": " a, b,,a ", "danm.k8s.io/clusterNetwork": "a"},
			&annotations.Endpoints{Selector: web, Networks: []annotations.NetworkName{network("DanmNet", "a"), network("DanmNet", "b"), network("ClusterNetwork", "a")}},
		},
		"of any kind": {
			map[string]string{"alioth.dev/selector": `{"app": "web", "example.com/tier": ""}`, "alioth.dev/network": "blue,VPC/red,DanmNet/a,NetworkAttachmentDefinition/lan,NetworkAttachmentDefinition/tools/lan"},
			&annotations.Endpoints{Selector: map[string]string{"app": "web", "example.com/tier": ""}, Networks: []annotations.NetworkName{
				network("Network", "blue"), network("VPC", "red"), network("DanmNet", "a"), network("NetworkAttachmentDefinition", "lan"),
				{Kind: "NetworkAttachmentDefinition", Namespace: "tools", Name: "lan"},
			}},
		},
		"the selector of DANM with the network of Alioth": {
			map[string]string{"danm.k8s.io/selector": `{"app": "web"}`, "alioth.dev/network": "DanmNet/a", "danm.k8s.io/network": "a"},
			&annotations.Endpoints{Selector: web, Networks: []annotations.NetworkName{network("DanmNet", "a")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := annotations.EndpointsOf(c.annotations)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEndpointsOf_WrongAnnotations_Refused(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("a,", 3), ",")
	for i := range 65 {
		many += ",n" + strings.Repeat("x", i)
	}
	for name, c := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"a selector without a network": {map[string]string{"danm.k8s.io/selector": `{"app": "web"}`}, "annotation danm.k8s.io/selector selects pods, and no annotation names a network: write one into danm.k8s.io/network, for example external"},
		"a network without a selector": {map[string]string{"danm.k8s.io/network": "a"}, "annotation danm.k8s.io/network names networks, and no annotation selects pods: write their labels into danm.k8s.io/selector"},
		"in the other group":           {map[string]string{"danm.io/clusterNetwork": "a"}, "write their labels into danm.io/selector"},
		"a selector of Alioth alone":   {map[string]string{"alioth.dev/selector": `{"app": "web"}`}, "write one into alioth.dev/network, for example web, DanmNet/external"},
		"no network in the annotation": {map[string]string{"danm.k8s.io/selector": `{"app": "web"}`, "danm.k8s.io/network": " , "}, "no annotation names a network"},
		"a selector that is no JSON":   {map[string]string{"danm.k8s.io/selector": "app=web", "danm.k8s.io/network": "a"}, `annotation danm.k8s.io/selector: line 1, column 1: it does not start with '{'; want a JSON object such as {"app": "web"}`},
		"an empty selector":            {map[string]string{"danm.k8s.io/selector": "{}", "danm.k8s.io/network": "a"}, "would select all pods"},
		"an empty text":                {map[string]string{"danm.k8s.io/selector": "", "danm.k8s.io/network": "a"}, "does not start with '{'"},
		"a label twice":                {map[string]string{"danm.k8s.io/selector": `{"app": "a", "app": "b"}`, "danm.k8s.io/network": "a"}, "duplicate field"},
		"a number as a value":          {map[string]string{"danm.k8s.io/selector": `{"app": 1}`, "danm.k8s.io/network": "a"}, `the value of label "app" is no text`},
		"null as a value":              {map[string]string{"danm.k8s.io/selector": `{"app": null}`, "danm.k8s.io/network": "a"}, "is no text"},
		"no label's name":              {map[string]string{"danm.k8s.io/selector": `{"a b": "c"}`, "danm.k8s.io/network": "a"}, "no pod can have the label"},
		"no label's value":             {map[string]string{"danm.k8s.io/selector": `{"a": "b c"}`, "danm.k8s.io/network": "a"}, "no pod can have the label"},
		"prefixes that differ":         {map[string]string{"danm.k8s.io/selector": `{"a": "b"}`, "danm.io/selector": `{"a": "c"}`, "danm.io/network": "a"}, "the annotations danm.k8s.io/selector and danm.io/selector differ: keep one of them"},
		"networks that differ":         {map[string]string{"danm.k8s.io/network": "a", "danm.io/network": "b"}, "differ: keep one of them"},
		"a name that is none":          {map[string]string{"danm.k8s.io/selector": `{"a": "b"}`, "danm.k8s.io/network": "A_B"}, `"A_B" is no object name`},
		"a list in JSON":               {map[string]string{"danm.k8s.io/selector": `{"a": "b"}`, "danm.k8s.io/network": `["a"]`}, "separated by commas"},
		"an unknown kind":              {map[string]string{"alioth.dev/selector": `{"a": "b"}`, "alioth.dev/network": "danmnet/a"}, `"danmnet" is no kind of network: write one of Network, VPC, DanmNet`},
		"a namespace of a DanmNet":     {map[string]string{"alioth.dev/selector": `{"a": "b"}`, "alioth.dev/network": "DanmNet/b/a"}, "only a NetworkAttachmentDefinition can have a namespace"},
		"a namespace that is none":     {map[string]string{"alioth.dev/selector": `{"a": "b"}`, "alioth.dev/network": "NetworkAttachmentDefinition/b.c/a"}, `"b.c" is no name of a namespace`},
		"too many networks":            {map[string]string{"alioth.dev/selector": `{"a": "b"}`, "alioth.dev/network": many}, "at most 64"},
		"a text that is too long":      {map[string]string{"alioth.dev/selector": `{"a": "b"}`, "alioth.dev/network": strings.Repeat(",", 1<<17)}, "at most 65536 are accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := annotations.EndpointsOf(c.annotations)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v and %v, want an error with %q", got, err, c.want)
			}
		})
	}
}

// FuzzEndpoints looks for a panic, and for accepted annotations whose meaning changes when
// it is written out and read again.
func FuzzEndpoints(f *testing.F) {
	f.Add(`{"app": "web"}`, "external, internal", "blue,DanmNet/a,NetworkAttachmentDefinition/tools/lan")
	f.Add(`{"a":"b","a":"c"}`, "", "VPC/a")
	f.Add("{}", "/", "a//b")
	f.Add(`{"a":"\u0000"}`, "A", "Network/")
	f.Fuzz(func(t *testing.T, selector, danm, own string) {
		got, err := annotations.EndpointsOf(map[string]string{"danm.io/selector": selector, "danm.k8s.io/network": danm, annotations.NetworkKey: own})
		if err != nil {
			return
		}
		if len(got.Selector) == 0 || len(got.Networks) == 0 {
			t.Fatalf("accepted without a label or a network: %+v", got)
		}
		text, err := json.Marshal(got.Selector)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, name := range got.Networks {
			names = append(names, name.String())
		}
		again, err := annotations.EndpointsOf(map[string]string{annotations.EndpointSelectorKey: string(text), annotations.NetworkKey: strings.Join(names, ",")})
		if err != nil {
			t.Fatalf("%+v, written out, is refused: %v", got, err)
		}
		if diff := cmp.Diff(got, again); diff != "" {
			t.Fatalf("read back (-want +got):\n%s", diff)
		}
	})
}
