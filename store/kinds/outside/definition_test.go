// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/cniconf"
	"github.com/alioth-net/alioth/helm"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// NPWG 1.1: names, scope and the only field of the CustomResourceDefinition.
func TestDefinitionKind_NPWGSpecification_Equal(t *testing.T) {
	text, err := fs.ReadFile(helm.CRDs(), "k8s.cni.cncf.io_network-attachment-definitions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		t.Fatal(err)
	}
	names, versions := crd.Spec.Names, crd.Spec.Versions
	if crd.Spec.Group != "k8s.cni.cncf.io" || names.Plural != "network-attachment-definitions" || names.Singular != "network-attachment-definition" ||
		names.Kind != "NetworkAttachmentDefinition" || !slices.Equal(names.ShortNames, []string{"net-attach-def"}) || crd.Spec.Scope != apiextensionsv1.NamespaceScoped {
		t.Errorf("the kind is %+v", crd.Spec)
	}
	if len(versions) != 1 || versions[0].Name != "v1" || versions[0].Subresources != nil {
		t.Fatalf("the versions are %+v", versions)
	}
	fields := versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	if len(fields) != 1 || fields["config"].Type != "string" {
		t.Errorf("the fields are %+v", fields)
	}
}

// NPWG 1.1: an implementation MUST NOT have its own configuration in spec.config, and a
// definition MAY have nothing usable there.
func TestDefinition_Configuration_Read(t *testing.T) {
	const bridge = `{"type":"bridge"}`
	blue := map[string]string{annotations.NetworkKey: `{"vpc":"blue"}`}
	vpc := multinet.Target{Kind: annotations.TargetVPC, Name: "blue"}
	for name, tc := range map[string]struct {
		annotations map[string]string
		config      string
		target      multinet.Target
		want        string
		problem     string
	}{
		"a configuration for plugins":                      {nil, " " + bridge + "\n", multinet.Target{}, bridge, ""},
		"a network of Alioth":                              {blue, "", vpc, "", ""},
		"Alioth's network is never in spec.config":         {nil, `{"vpc":"blue"}`, multinet.Target{}, `{"vpc":"blue"}`, ""},
		"the configuration beside Alioth's is for others":  {blue, bridge, vpc, "", ""},
		"no usable key: the name stands for a known one":   {nil, " \n", multinet.Target{}, "", ""},
		"a malformed annotation is no configuration":       {map[string]string{annotations.NetworkKey: "{"}, bridge, multinet.Target{}, "", "annotation alioth.dev/network"},
		"a configuration that is too long for any network": {nil, strings.Repeat("x", cniconf.MaxText+1), multinet.Target{}, "", "at most 65536 are accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			object := &nadv1.NetworkAttachmentDefinition{ObjectMeta: objectMeta("lab", 3), Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: tc.config}}
			object.Annotations = tc.annotations
			got, err := Definition.Convert(object)
			if err != nil {
				t.Fatal(err)
			}
			if link := (multinet.LinkID{}); got.Link != link {
				t.Errorf("the link is %s", got.Link)
			}
			if got.Target != tc.target || got.Config != tc.want || !strings.Contains(got.Problem, tc.problem) || (got.Problem == "") != (tc.problem == "") {
				t.Errorf("the row is %+v", *got)
			}
		})
	}
}

func TestDefinition_VLANOrVXLANInConfiguration_LinkRequested(t *testing.T) {
	for config, want := range map[string]multinet.LinkID{
		`{"type":"macvlan","master":"ens4","vlan":100}`:                 {Device: "ens4", Type: multinet.VLAN, VNI: 100},
		`{"plugins":[{"type":"ipvlan","master":"ens4","vxlan":200}]}`:   {Device: "ens4", Type: multinet.VXLAN, VNI: 200},
		`{"type":"macvlan","master":"ens4","vlan":100,"vxlan":200}`:     {},
		`{"type":"bridge","bridge":"br0","vlan":100}`:                   {},
		`{"type":"macvlan","master":"ens4","vlan":100,"vlan":101}`:      {},
		`{"type":"macvlan","master":"ens4","vlan":100} and something`:   {},
		`{"type":"macvlan","master":"/../../etc/passwd","vlan":1}`:      {},
		`{"plugins":[{"type":"tuning"},{"type":"macvlan","vlan":100}]}`: {},
	} {
		object := &nadv1.NetworkAttachmentDefinition{ObjectMeta: objectMeta("lab", 3), Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: config}}
		got, err := Definition.Convert(object)
		if err != nil || got.Link != want {
			t.Errorf("%s asks for %+v, %v, want %+v", config, got.Link, err, want)
		}
	}
}
