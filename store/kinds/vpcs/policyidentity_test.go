// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vpcs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/policy"
)

const readIdentity = `
metadata: {name: red.4711, uid: u}
spec:
  vpc: red
  number: 4711
  namespace: ns
  labels: [{key: app, value: web}, {key: tier}]
  omitted: [pod-template-hash]
  ports: [{name: http, protocol: TCP, port: 8080}]
`

func readPolicyIdentity(t *testing.T) *v1alpha1.PolicyIdentity {
	t.Helper()
	out := new(v1alpha1.PolicyIdentity)
	if err := yaml.UnmarshalStrict([]byte(readIdentity), out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestConvertPolicyIdentity_AllFields_Converted(t *testing.T) {
	got, err := convertPolicyIdentity(readPolicyIdentity(t))
	want := &policy.Identity{
		Meta: store.Meta{UID: "u"}, Name: "red.4711", VPC: "red", Number: 4711, Namespace: "ns",
		Labels: map[string]string{"app": "web", "tier": ""}, Omitted: []string{"pod-template-hash"},
		Ports: []policy.Port{{Name: "http", Protocol: "TCP", Port: 8080}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatalf("%v, row (-want +got):\n%s", err, diff)
	}
	if err := got.Check(); err != nil {
		t.Error(err)
	}
}

func TestPolicyIdentity_UnknownOrLongTexts_NoRow(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.PolicyIdentity){
		"protocol":    func(in *v1alpha1.PolicyIdentity) { in.Spec.Ports[0].Protocol = "QUIC" },
		"key":         func(in *v1alpha1.PolicyIdentity) { in.Spec.Labels[0].Key = strings.Repeat("k", 318) },
		"omitted key": func(in *v1alpha1.PolicyIdentity) { in.Spec.Omitted = []string{strings.Repeat("k", 318)} },
		"value":       func(in *v1alpha1.PolicyIdentity) { in.Spec.Labels[0].Value = "a\x1b" },
		"port":        func(in *v1alpha1.PolicyIdentity) { in.Spec.Ports[0].Name = "a\n" },
		"VPC":         func(in *v1alpha1.PolicyIdentity) { in.Spec.VPC = "Red" },
	} {
		in := readPolicyIdentity(t)
		change(in)
		if row, err := PolicyIdentity.Row(in); err == nil {
			t.Errorf("%s: row %+v", name, row)
		}
	}
}
