// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package capture_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/policy/capture"
)

const captured = `
base:
  interfaces:
  - {name: eth1, mtu: 1500, description: "{{ capture.base.interfaces.0.name }}", ipv4: {enabled: true, address: [{ip: 10.0.0.1, prefix-length: 24}]}}
`

func TestTemplate_CapturedValue_Inserted(t *testing.T) {
	for what, c := range map[string]struct{ desired, want string }{
		"a text":                     {`a: "{{ capture.base.interfaces.0.name }}"`, `a: eth1`},
		"without spaces":             {`a: "{{capture.base.interfaces.0.name}}"`, `a: eth1`},
		"a number keeps its type":    {`a: "{{ capture.base.interfaces.0.mtu }}"`, `a: 1500`},
		"a boolean keeps its type":   {`a: "{{ capture.base.interfaces.0.ipv4.enabled }}"`, `a: true`},
		"a list keeps its type":      {`a: "{{ capture.base.interfaces.0.ipv4.address }}"`, `a: [{ip: 10.0.0.1, prefix-length: 24}]`},
		"an object keeps its type":   {`a: "{{ capture.base.interfaces.0.ipv4 }}"`, `a: {enabled: true, address: [{ip: 10.0.0.1, prefix-length: 24}]}`},
		"in lists and objects":       {`{a: [{b: ["{{ capture.base.interfaces.0.name }}"]}]}`, `{a: [{b: [eth1]}]}`},
		"in a longer text":           {`a: "br-{{ capture.base.interfaces.0.name }}"`, `a: br-eth1`},
		"several in a text":          {`a: "{{ capture.base.interfaces.0.name }}/{{ capture.base.interfaces.0.mtu }}/{{ capture.base.interfaces.0.ipv4.enabled }}"`, `a: eth1/1500/true`},
		"two without a text between": {`a: "{{ capture.base.interfaces.0.name }}{{ capture.base.interfaces.0.mtu }}"`, `a: eth11500`},
		"a captured text is no template": {
			`{a: "{{ capture.base.interfaces.0.description }}", b: "x{{ capture.base.interfaces.0.description }}"}`,
			`{a: "{{ capture.base.interfaces.0.name }}", b: "x{{ capture.base.interfaces.0.name }}"}`,
		},
		"fields keep their names": {`"{{ capture.base.interfaces.0.name }}": x`, `"{{ capture.base.interfaces.0.name }}": x`},
		"the rest stays":          {`{a: x, b: [1, true, null, {}], c: "}} {"}`, `{a: x, b: [1, true, null, {}], c: "}} {"}`},
		"an empty state":          {`{}`, `{}`},
	} {
		t.Run(what, func(t *testing.T) {
			desired, captures := object(t, c.desired), objects(t, captured)
			got, err := capture.Render(desired, captures)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(object(t, c.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(object(t, c.desired), desired); diff != "" {
				t.Errorf("the desired state was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestTemplate_Meaningless_ErrorWithPath(t *testing.T) {
	for text, want := range map[string]string{
		`{{ capture.base.interfaces.0.mac-address }}`: `template {{ capture.base.interfaces.0.mac-address }}: column 30: capture.base.interfaces.0 has no field "mac-address"`,
		`{{ capture.base.interfaces.1.name }}`:        `template {{ capture.base.interfaces.1.name }}: column 28: capture.base.interfaces has 1 elements, and no index 1`,
		`{{ capture.other.interfaces }}`:              `template {{ capture.other.interfaces }}: column 12: no capture has the name "other"`,
		`{{ interfaces.0.name }}`:                     `template {{ interfaces.0.name }}: column 4: expected capture.<name>, found "interfaces"`,
		`{{ capture.base.interfaces.0.name=="x" }}`:   `template {{ capture.base.interfaces.0.name=="x" }}: column 34: expected "." or the end, found "=="`,
		`{{ }}`:                                  `template {{ }}: column 4: expected capture.<name>, found the end`,
		`ä {{ capture.base`:                      `column 3: the template {{ capture.base has no closing }}`,
		`x {{ capture.base.interfaces.0.ipv4 }}`: `template {{ capture.base.interfaces.0.ipv4 }}: column 3: a text can't contain an object; make the template the whole text`,
		`ä {{capture.base}}`:                     `template {{capture.base}}: column 3: a text can't contain an object; make the template the whole text`,

		// Long ones are short in the message.
		`{{ capture.base.` + strings.Repeat("x", 2000):      `column 1: the template {{ capture.base.` + strings.Repeat("x", 86) + `... has no closing }}`,
		`{{ ` + strings.Repeat("x", 2000) + ` }}`:           `template {{ ` + strings.Repeat("x", 97) + `...: column 3: the expression has 2002 bytes, more than 1024`,
		`{{ capture.base` + strings.Repeat(".x", 33) + `}}`: `template {{ capture.base` + strings.Repeat(".x", 33) + `}}: column 81: the path has more than 32 steps`,
	} {
		t.Run(text, func(t *testing.T) {
			desired := map[string]any{"interfaces": []any{map[string]any{"name": "eth0"}, map[string]any{"name": text}}}
			_, err := capture.Render(desired, objects(t, captured))
			if err == nil || err.Error() != "desired state: interfaces.1.name: "+want {
				t.Errorf("the error is\n%v, expected\ndesired state: interfaces.1.name: %s", err, want)
			}
		})
	}
}

func TestTemplate_RenderedState_SharesNothingWithCaptures(t *testing.T) {
	captures := objects(t, captured)
	got, err := capture.Render(object(t, `a: "{{ capture.base.interfaces.0.ipv4 }}"`), captures)
	if err != nil {
		t.Fatal(err)
	}
	got["a"].(map[string]any)["enabled"] = "changed"
	if diff := cmp.Diff(objects(t, captured), captures); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestTemplate_Multiplying_ErrorBeforeMemoryFull(t *testing.T) {
	long := map[string]map[string]any{"base": {"list": make([]any, 1000), "text": strings.Repeat("x", 1<<20)}}
	for what, text := range map[string]string{
		"lists": "{{ capture.base.list }}",
		"texts": "-{{ capture.base.text }}",
	} {
		t.Run(what, func(t *testing.T) {
			list := make([]any, 1000)
			for i := range list {
				list[i] = text
			}
			_, err := capture.Render(map[string]any{"a": list}, long)
			if err == nil || !strings.Contains(err.Error(), "the result is too large") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// policies are the examples of nmpolicy's documentation, on the node of the tests.
func TestDocumentedPolicies_EachForm_MeanTheSame(t *testing.T) {
	for what, c := range map[string]struct {
		captures      map[string]string
		desired, want string
	}{
		"a bridge over the interface of the default route": {
			map[string]string{
				"default-gw":        `routes.running.destination=="0.0.0.0/0"`,
				"base-iface":        `interfaces.name==capture.default-gw.routes.running.0.next-hop-interface`,
				"base-iface-routes": `routes.running.next-hop-interface==capture.base-iface.interfaces.0.name`,
				"bridge-routes":     `capture.base-iface-routes | routes.running.next-hop-interface:="br1"`,
			}, `
interfaces:
- name: br1
  type: linux-bridge
  state: up
  mac-address: "{{ capture.base-iface.interfaces.0.mac-address }}"
  ipv4: "{{ capture.base-iface.interfaces.0.ipv4 }}"
  bridge: {options: {stp: {enabled: false}}, port: [{name: "{{ capture.base-iface.interfaces.0.name }}"}]}
routes: {config: "{{ capture.bridge-routes.routes.running }}"}
`, `
interfaces:
- name: br1
  type: linux-bridge
  state: up
  mac-address: 52:55:00:D1:55:01
  ipv4: {enabled: true, dhcp: false, address: [{ip: 192.168.122.50, prefix-length: 24}, {ip: 192.168.122.51, prefix-length: 24}]}
  bridge: {options: {stp: {enabled: false}}, port: [{name: eth1}]}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-interface: br1, next-hop-address: 192.168.122.1, table-id: 254, metric: 100}
  - {destination: 10.1.0.0/16, next-hop-interface: br1, next-hop-address: 192.168.122.9, table-id: 254}
`,
		},
		"a bond of two interfaces, with the name servers kept": {
			map[string]string{
				"primary-nic":   `interfaces.description=="primary"`,
				"secondary-nic": `interfaces.description=="secondary"`,
				"dns":           `dns-resolver.running`,
			}, `
interfaces:
- name: bond0
  type: bond
  state: up
  mac-address: "{{ capture.primary-nic.interfaces.0.mac-address }}"
  ipv4: {enabled: true, address: "{{ capture.primary-nic.interfaces.0.ipv4.address }}"}
  link-aggregation: {mode: active-backup, port: ["{{ capture.primary-nic.interfaces.0.name }}", "{{ capture.secondary-nic.interfaces.0.name }}"]}
dns-resolver: {config: "{{ capture.dns.dns-resolver.running }}"}
`, `
interfaces:
- name: bond0
  type: bond
  state: up
  mac-address: 52:55:00:D1:55:01
  ipv4: {enabled: true, address: [{ip: 192.168.122.50, prefix-length: 24}, {ip: 192.168.122.51, prefix-length: 24}]}
  link-aggregation: {mode: active-backup, port: [eth1, eth2]}
dns-resolver: {config: {server: [192.168.122.1], search: [example.com]}}
`,
		},
		"all bridges down": {
			map[string]string{
				"linux-bridges":      `interfaces.type=="linux-bridge" `,
				"linux-bridges-down": `capture.linux-bridges | interfaces.state:="down"`,
			},
			`interfaces: "{{ capture.linux-bridges-down.interfaces }}"`,
			`interfaces: [{name: br7, type: linux-bridge, state: down, mtu: 1500, bridge: {port: [{name: eth9}, {name: eth8}]}}]`,
		},
		"another MTU for the interface of the default route": {
			map[string]string{
				"gw":       `routes.running.destination=="0.0.0.0/0"`,
				"gw-iface": `interfaces.name==capture.gw.routes.running.0.next-hop-interface`,
			},
			`interfaces: [{name: "{{ capture.gw-iface.interfaces.0.name }}", type: ethernet, state: up, mtu: 1280}]`,
			`interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1280}]`,
		},
	} {
		t.Run(what, func(t *testing.T) {
			captures, err := evaluate(t, c.captures, nil)
			if err != nil {
				t.Fatal(err)
			}
			want := object(t, c.want)
			rendered(t, c.desired, captures, want)
			// On the state that the policy has made, the expressions mean something else.
			again, err := capture.Evaluate(c.captures, want, captures)
			if err != nil {
				t.Fatal(err)
			}
			rendered(t, c.desired, again, want)
		})
	}
}

// rendered checks a rendered state, and that the document's types can read it.
func rendered(t *testing.T, desired string, captures map[string]map[string]any, want map[string]any) {
	t.Helper()
	got, err := capture.Render(object(t, desired), captures)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := document.Parse(yamlOf(t, got)); err != nil {
		t.Errorf("the rendered state is no document: %v", err)
	}
}
