// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package capture_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/cnid/nmstate/policy/capture"
)

func yamlOf(t *testing.T, value any) []byte {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// FuzzParse looks for a panic, for an error without a place, and for an expression whose
// second result differs from the first.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "interfaces", `interfaces.name=="eth1"`, `interfaces.mtu != 1500 | interfaces.state := "up"`,
		`capture.other.interfaces.0.ipv4`, `interfaces.name==capture.other.interfaces.0.name`,
		`routes.running.0.metric:=capture.other`, `dns-resolver.running|dns-resolver.config:=true`,
		"capture", "capture.", "capture.it", `interfaces.x.0.1.2.y:=7`, `"`, "=", "|", "interfaces..x", "ä.ö\xff", "interfaces.bridge.port.name==false",
	} {
		f.Add(seed)
	}
	var current map[string]any
	if err := yaml.Unmarshal([]byte(node), &current); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		expressions := map[string]string{"it": expression, "other": `interfaces.name=="eth2"`}
		first, err := capture.Evaluate(expressions, current, nil)
		if err != nil {
			if !strings.Contains(err.Error(), "capture it: ") || !strings.Contains(err.Error(), "column ") {
				t.Fatalf("%q: the error has no place: %v", expression, err)
			}
			return
		}
		second, err := capture.Evaluate(expressions, current, nil)
		if err != nil || !cmp.Equal(first, second) {
			t.Fatalf("%q has two results: %v and %v, %v", expression, first, second, err)
		}
	})
}

// FuzzRender looks for a panic, and for an error without the path in the document.
func FuzzRender(f *testing.F) {
	for _, seed := range []string{"", "x", "{{", "}}", "{{}}", "{{ capture.base }}", "a{{ capture.base.interfaces.0.name }}b{{ capture.base.interfaces.0.mtu }}", "{{ capture.base.interfaces.7 }}", "{{{{ }}}}", "\xff{{\xff}}"} {
		f.Add(seed)
	}
	var captures map[string]map[string]any
	if err := yaml.Unmarshal([]byte(captured), &captures); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := capture.Render(map[string]any{"a": []any{text}}, captures)
		if err != nil && !strings.HasPrefix(err.Error(), "desired state: a.0: ") {
			t.Fatalf("%q: the error has no place: %v", text, err)
		}
		if s, ok := onlyText(got); err == nil && !strings.Contains(text, "{{") && (!ok || s != text) {
			t.Fatalf("%q has no template and became %v", text, got)
		}
	})
}

// onlyText is the text of the document of FuzzRender.
func onlyText(rendered map[string]any) (string, bool) {
	list, ok := rendered["a"].([]any)
	if !ok || len(list) != 1 {
		return "", false
	}
	s, ok := list[0].(string)
	return s, ok
}
