// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"fmt"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// BenchmarkParse reads a document with 500 interfaces. For comparison it also measures the
// parser of JSON alone.
func BenchmarkParse(b *testing.B) {
	var text strings.Builder
	text.WriteString("interfaces:\n")
	for n := range 500 {
		fmt.Fprintf(
			&text,
			"- {name: v%d, type: vlan, state: up, mtu: 1500, vlan: {base-iface: eth1, id: %d}, ipv4: {enabled: true, address: [{ip: 10.0.%d.%d, prefix-length: 24}]}}\n",
			n,
			n+1,
			n/250,
			n%250,
		)
	}
	data, err := yaml.YAMLToJSON([]byte(text.String()))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("document", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ParseJSON(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parser alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var state State
			if _, err := kjson.UnmarshalStrict(data, &state); err != nil {
				b.Fatal(err)
			}
		}
	})
}
