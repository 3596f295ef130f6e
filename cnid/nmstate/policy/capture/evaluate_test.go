// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package capture_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/cnid/nmstate/policy/capture"
)

// node is the state of a node: two Ethernet interfaces, one with the default route, and a
// bridge.
const node = `
dns-resolver:
  running: {server: [192.168.122.1], search: [example.com]}
routes:
  running:
  - {destination: 0.0.0.0/0, next-hop-interface: eth1, next-hop-address: 192.168.122.1, table-id: 254, metric: 100}
  - {destination: 10.1.0.0/16, next-hop-interface: eth1, next-hop-address: 192.168.122.9, table-id: 254}
  - {destination: 10.2.0.0/16, next-hop-interface: eth2, next-hop-address: 192.168.123.9, table-id: 7}
route-rules:
  config:
  - {ip-from: 10.0.0.0/8, priority: 100, route-table: 7}
interfaces:
- name: eth1
  type: ethernet
  state: up
  description: primary
  mac-address: 52:55:00:D1:55:01
  mtu: 1500
  ipv4: {enabled: true, dhcp: false, address: [{ip: 192.168.122.50, prefix-length: 24}, {ip: 192.168.122.51, prefix-length: 24}]}
- name: eth2
  type: ethernet
  state: down
  description: secondary
  mac-address: 52:55:00:D1:56:02
  mtu: 9000
  ipv4: {enabled: false}
- name: br7
  type: linux-bridge
  state: up
  mtu: 1500
  bridge: {port: [{name: eth9}, {name: eth8}]}
`

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return out
}

// objects reads states by the names of captures.
func objects(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	var out map[string]map[string]any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return out
}

// evaluate evaluates on the node, whose state must stay as it is.
func evaluate(t *testing.T, expressions map[string]string, cached map[string]map[string]any) (map[string]map[string]any, error) {
	t.Helper()
	current := object(t, node)
	got, err := capture.Evaluate(expressions, current, cached)
	if diff := cmp.Diff(object(t, node), current); diff != "" {
		t.Errorf("the current state was changed (-before +after):\n%s", diff)
	}
	return got, err
}

func TestCaptureFilter_Expression_OnlyMatchesKept(t *testing.T) {
	const eth2 = `{name: eth2, type: ethernet, state: down, description: secondary, mac-address: "52:55:00:D1:56:02", mtu: 9000, ipv4: {enabled: false}}`
	const br7 = `{name: br7, type: linux-bridge, state: up, mtu: 1500, bridge: {port: [{name: eth9}, {name: eth8}]}}`
	const toEth2 = `{destination: 10.2.0.0/16, next-hop-interface: eth2, next-hop-address: 192.168.123.9, table-id: 7}`
	for what, c := range map[string]struct{ expression, want string }{
		"elements with a text":              {`interfaces.name=="eth2"`, `interfaces: [` + eth2 + `]`},
		"spaces and lines mean nothing":     {"\n interfaces.name\t==\n \"eth2\" ", `interfaces: [` + eth2 + `]`},
		"elements with a number":            {`interfaces.mtu==9000`, `interfaces: [` + eth2 + `]`},
		"elements with a boolean":           {`interfaces.ipv4.enabled==false`, `interfaces: [` + eth2 + `]`},
		"elements without a text":           {`interfaces.type!="ethernet"`, `interfaces: [` + br7 + `]`},
		"a missing field never matches":     {`interfaces.description!="primary"`, `interfaces: [` + eth2 + `]`},
		"a list in an element":              {`interfaces.bridge.port.name=="eth8"`, `interfaces: [` + br7 + `]`},
		"an index of a list in an element":  {`interfaces.bridge.port.0.name=="eth8"`, `interfaces: []`},
		"an index beyond such a list":       {`interfaces.bridge.port.7.name=="eth8"`, `interfaces: []`},
		"one element by its index":          {`interfaces.2.state=="up"`, `interfaces: [` + br7 + `]`},
		"a list one level down":             {`routes.running.table-id==7`, `routes: {running: [` + toEth2 + `]}`},
		"rules":                             {`route-rules.config.priority==100`, `route-rules: {config: [{ip-from: 10.0.0.0/8, priority: 100, route-table: 7}]}`},
		"no match":                          {`interfaces.name=="eth77"`, `interfaces: []`},
		"a list that the state lacks":       {`routes.config.destination=="0.0.0.0/0"`, `routes: {config: []}`},
		"a part":                            {`dns-resolver.running`, `dns-resolver: {running: {server: [192.168.122.1], search: [example.com]}}`},
		"a part of a part":                  {`dns-resolver.running.search`, `dns-resolver: {running: {search: [example.com]}}`},
		"an element stays in its list":      {`interfaces.1`, `interfaces: [` + eth2 + `]`},
		"a field of one element":            {`interfaces.1.mtu`, `interfaces: [{mtu: 9000}]`},
		"a list":                            {`route-rules.config`, `route-rules: {config: [{ip-from: 10.0.0.0/8, priority: 100, route-table: 7}]}`},
		"an empty list":                     {`routes.config`, `routes: {config: []}`},
		"a filter of a filter":              {`interfaces.state=="up" | interfaces.type=="linux-bridge"`, `interfaces: [` + br7 + `]`},
		"a part of a filter":                {`interfaces.mtu==9000 | interfaces.0.name`, `interfaces: [{name: eth2}]`},
		"a changed filter":                  {`interfaces.mtu==9000 | interfaces.0.ipv4 | interfaces.ipv4.enabled:=true`, `interfaces: [{ipv4: {enabled: true}}]`},
		"an object that is made":            {`interfaces.1.ipv4 | interfaces.lldp.enabled:=true`, `interfaces: [{ipv4: {enabled: false}, lldp: {enabled: true}}]`},
		"a list in all elements is changed": {`interfaces.2.bridge | interfaces.bridge.port.vlan.tag:=7`, `interfaces: [{bridge: {port: [{name: eth9, vlan: {tag: 7}}, {name: eth8, vlan: {tag: 7}}]}}]`},
		"an index of it is changed":         {`interfaces.2.bridge | interfaces.bridge.port.1.name:="x"`, `interfaces: [{bridge: {port: [{name: eth9}, {name: x}]}}]`},
		"nothing to change":                 {`routes.config | routes.config.metric:=7`, `routes: {config: []}`},
		"nothing there to change":           {`dns-resolver.running.search | interfaces.state:="down"`, `dns-resolver: {running: {search: [example.com]}}`},
		"a whole list":                      {`dns-resolver.running.search | interfaces:=capture.other.interfaces`, `{dns-resolver: {running: {search: [example.com]}}, interfaces: [` + eth2 + `]}`},
		"a capture":                         {`capture.other`, `interfaces: [` + eth2 + `]`},
		"a part of a capture":               {`capture.other.interfaces.0.name`, `interfaces: [{name: eth2}]`},
		"a filter of a capture":             {`capture.other.interfaces.state=="up"`, `interfaces: []`},
		"a text of a capture":               {`routes.running.next-hop-interface==capture.other.interfaces.0.name`, `routes: {running: [` + toEth2 + `]}`},
		"a number of a capture":             {`interfaces.mtu==capture.other.interfaces.0.mtu`, `interfaces: [` + eth2 + `]`},
		"an object of a capture":            {`interfaces.2.name | interfaces.ipv4:=capture.other.interfaces.0.ipv4`, `interfaces: [{name: br7, ipv4: {enabled: false}}]`},
	} {
		t.Run(what, func(t *testing.T) {
			got, err := evaluate(t, map[string]string{"it": c.expression, "other": `interfaces.name=="eth2"`}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(object(t, c.want), got["it"]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.expression, diff)
			}
		})
	}
}

func TestCaptureReplace_Expression_RestOfStateKept(t *testing.T) {
	got, err := evaluate(t, map[string]string{"it": `routes.running.next-hop-interface:="br1"`}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := object(
		t,
		strings.NewReplacer("next-hop-interface: eth1", "next-hop-interface: br1", "next-hop-interface: eth2", "next-hop-interface: br1").Replace(node),
	)
	if diff := cmp.Diff(want, got["it"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCaptureError_InvalidExpression_PositionAndExpectation(t *testing.T) {
	for expression, want := range map[string]string{
		``:                                               `column 1: expected a path like interfaces.name or capture.<name>, found the end`,
		`interfaces.name==`:                              `column 18: expected a text in double quotes, a number, true, false or capture.<name>, found the end`,
		`interfaces.name==eth1`:                          `column 18: expected a text in double quotes, a number, true, false or capture.<name>, found "eth1"`,
		`interfaces.name="eth1"`:                         `column 16: unexpected '=': the operators are ==, != and :=`,
		`interfaces.name+="eth1"`:                        `column 16: unexpected '+': expected a path`,
		`interfaces.name=='eth1'`:                        `column 18: unexpected '\'': texts have double quotes`,
		`interfaces.name=="eth1`:                         `column 18: the text has no closing "`,
		`interfaces.name=="äöü" "x"`:                     `column 24: expected an operator, "|" or the end, found the text "x"`,
		`interfaces.=="x"`:                               `column 12: expected a field's name or an index after ".", found "=="`,
		`"x"==interfaces.name`:                           `column 1: expected a path like interfaces.name or capture.<name>, found the text "x"`,
		`interfaces.name=="x" |`:                         `column 23: expected a path`,
		`interfaces name`:                                `column 12: expected an operator, "|" or the end, found "name"`,
		`interfaces.1234567890123456`:                    `column 12: the number has 16 digits, more than 15`,
		`hostname`:                                       `column 1: a state has interfaces, routes, route-rules and dns-resolver, but no "hostname"`,
		`routes.destination=="x"`:                        `column 8: routes has running and config, but no "destination"`,
		`routes.0.destination=="x"`:                      `column 8: routes has running and config, but no "0"`,
		`interfaces=="x"`:                                `column 11: a comparison needs a field of the elements on its left`,
		`interfaces.0=="x"`:                              `column 13: a comparison needs a field of the elements on its left`,
		`routes=="x"`:                                    `column 7: a comparison needs a field of the elements on its left`,
		`dns-resolver.running.search=="x"`:               `column 1: dns-resolver can be captured whole, but not compared`,
		`capture`:                                        `column 8: expected "." and the name of a capture, found the end`,
		`capture.nobody | interfaces.mtu:=1`:             `column 9: no capture has the name "nobody"`,
		`interfaces.name==capture.nobody.x`:              `column 26: no capture has the name "nobody"`,
		`capture.other=="x"`:                             `column 14: "==" needs a path into the state on its left`,
		`interfaces.mtu==1500 | capture.other`:           `column 32: a capture is only possible before the first pipe`,
		`interfaces.mtu=="1500"`:                         `column 12: interfaces.mtu is a number, and can't be compared with a text`,
		`interfaces.name==true`:                          `column 12: interfaces.name is a text, and can't be compared with a boolean`,
		`interfaces.ipv4=="x"`:                           `column 12: interfaces.ipv4 is an object, and can't be compared with a text`,
		`interfaces.bridge.port=="x"`:                    `column 19: interfaces.bridge.port is a list, and can't be compared with a text`,
		`interfaces.name.x=="x"`:                         `column 17: interfaces.name is a text, and has no "x"`,
		`interfaces.name==capture.other.interfaces`:      `column 26: expected a text, a number or a boolean to compare with, found a list`,
		`interfaces.name==capture.other.interfaces.9`:    `column 43: capture.other.interfaces has 1 elements, and no index 9`,
		`interfaces.name==capture.other.interfaces.name`: `column 43: capture.other.interfaces is a list: expected an index before "name"`,
		`interfaces.name==capture.other.0`:               `column 32: capture.other is an object: expected a field's name instead of the index 0`,
		`interfaces.name==capture.other.routes`:          `column 32: capture.other has no field "routes"`,
		`interfaces.name`:                                `column 12: interfaces is a list: expected an index before "name"`,
		`dns-resolver.config`:                            `column 14: dns-resolver has no field "config"`,
		`interfaces.9`:                                   `column 12: interfaces has 3 elements, and no index 9`,
		`interfaces.9.name:="x"`:                         `column 12: interfaces has 3 elements, and no index 9`,
		`interfaces.name.x:="x"`:                         `column 17: interfaces.name is a text, and has no "x"`,
		`interfaces.ipv4.0.x:="x"`:                       `column 17: interfaces.ipv4 is an object: expected a field's name instead of the index 0`,
		`interfaces.lldp.0:="x"`:                         `column 17: interfaces.lldp is null, and has no "0"`,
	} {
		t.Run(expression, func(t *testing.T) {
			_, err := evaluate(t, map[string]string{"it": expression, "other": `interfaces.name=="eth2"`}, nil)
			if err == nil || !strings.HasPrefix(err.Error(), "capture it: "+want) {
				t.Errorf("the error is\n%v, expected\ncapture it: %s", err, want)
			}
		})
	}
}

func TestCapture_UnexpectedStateForm_ErrorWithoutPanic(t *testing.T) {
	expressions := []string{
		`interfaces`,
		`interfaces.name=="x"`,
		`interfaces.name:="x"`,
		`interfaces.0.name:="x"`,
		`interfaces.0`,
		`routes.running`,
		`routes.running.metric==1`,
		`routes.running.metric:=1`,
		`routes.running.0`,
	}
	for _, state := range []string{`{interfaces: x, routes: 7}`, `{interfaces: {name: x}, routes: []}`, `{interfaces: [[[]], 7], routes: {running: 7}}`, `{interfaces: [null], routes: {running: {}}}`, `{}`, `null`} {
		for _, expression := range expressions {
			if _, err := capture.Evaluate(map[string]string{"it": expression}, object(t, state), nil); err != nil && !strings.Contains(err.Error(), "column ") {
				t.Errorf("%s on %s: the error has no column: %v", expression, state, err)
			}
		}
	}
	if _, err := capture.Evaluate(map[string]string{"it": `interfaces.name=="x"`}, object(t, `{interfaces: {name: x}}`), nil); err == nil {
		t.Error("an object in the place of a list is no error")
	}
}

func TestCapture_NumbersOfEachDecoder_Equal(t *testing.T) {
	current := map[string]any{"interfaces": []any{
		map[string]any{"name": "a", "mtu": int64(1500)}, map[string]any{"name": "b", "mtu": 1500.0}, map[string]any{"name": "c", "mtu": int64(9000)},
	}}
	got, err := capture.Evaluate(map[string]string{"it": `interfaces.mtu==1500`}, current, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got["it"]["interfaces"].([]any)); n != 2 {
		t.Errorf("%d interfaces have the MTU, expected 2", n)
	}
}

func TestCapture_SeveralFaults_ReportedTogether(t *testing.T) {
	_, err := evaluate(t, map[string]string{"a": `interfaces.`, "b": `interfaces.mtu==1500`, "c": `capture.d`, "e f": `interfaces`, "": `interfaces`}, nil)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"capture a: column 12", "capture c: column 9", `capture "e f": a name`, `capture "": a name`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "capture b") {
		t.Errorf("b is right, and is in the error:\n%v", err)
	}
}

func TestCapture_ReferenceCycle_Error(t *testing.T) {
	for what, c := range map[string]struct {
		expressions map[string]string
		want        string
	}{
		"itself":         {map[string]string{"a": `capture.a | interfaces.mtu:=1`}, "capture a: column 9: the captures refer to each other in a cycle: a -> a"},
		"two":            {map[string]string{"a": `interfaces.name==capture.b.x`, "b": `capture.a`}, "capture b: column 9: the captures refer to each other in a cycle: a -> b -> a"},
		"not all of it":  {map[string]string{"a": `capture.b`, "b": `capture.c`, "c": `capture.b`}, "capture c: column 9: the captures refer to each other in a cycle: b -> c -> b"},
		"beyond a pipe":  {map[string]string{"a": `interfaces | interfaces.mtu:=capture.a.x`}, "capture a: column 38: the captures refer to each other in a cycle: a -> a"},
		"other's errors": {map[string]string{"a": `capture.b`, "b": `interfaces.9`}, "capture b: column 12: interfaces has 3 elements, and no index 9"},
	} {
		t.Run(what, func(t *testing.T) {
			if _, err := evaluate(t, c.expressions, nil); err == nil || err.Error() != c.want {
				t.Errorf("the error is\n%v, expected\n%s", err, c.want)
			}
		})
	}
}

func TestCapture_CachedResult_ReplacesEvaluation(t *testing.T) {
	cached := objects(t, `{base: {interfaces: [{name: eth2}]}, gone: {interfaces: [{name: eth3}]}}`)
	got, err := evaluate(t, map[string]string{"base": `interfaces.name=="eth1"`, "it": `capture.base | interfaces.mtu:=9000`}, cached)
	if err != nil {
		t.Fatal(err)
	}
	want := objects(t, `{base: {interfaces: [{name: eth2}]}, it: {interfaces: [{name: eth2, mtu: 9000}]}}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got["base"]["interfaces"].([]any)[0].(map[string]any)["name"] = "changed"
	if diff := cmp.Diff(objects(t, `{base: {interfaces: [{name: eth2}]}, gone: {interfaces: [{name: eth3}]}}`), cached); diff != "" {
		t.Errorf("the cached results were changed (-before +after):\n%s", diff)
	}
}

func TestCapture_Results_ShareNoMemory(t *testing.T) {
	expressions := map[string]string{"a": `interfaces`, "b": `capture.a`, "c": `interfaces.1.ipv4 | interfaces.ipv6:=capture.a.interfaces.1.ipv4`}
	current := object(t, node)
	got, err := capture.Evaluate(expressions, current, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		got[name]["interfaces"].([]any)[1].(map[string]any)["ipv4"].(map[string]any)["enabled"] = name
	}
	c := object(t, `interfaces: [{ipv4: {enabled: false}, ipv6: {enabled: false}}]`)
	if diff := cmp.Diff(c, got["c"]); diff != "" {
		t.Errorf("a change of another result changed c (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(object(t, node), current); diff != "" {
		t.Errorf("a change of a result changed the current state (-before +after):\n%s", diff)
	}
	if got["a"]["interfaces"].([]any)[1].(map[string]any)["ipv4"].(map[string]any)["enabled"] != "a" {
		t.Error("a change of b changed a")
	}
}

func TestCapture_OversizedExpressions_Refused(t *testing.T) {
	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprintf("c%d", i)] = `interfaces`
	}
	for what, c := range map[string]struct {
		expressions map[string]string
		want        string
	}{
		"captures": {many, "capture: 65 expressions, more than 64"},
		"length":   {map[string]string{"a": `interfaces.name=="` + strings.Repeat("x", 1024) + `"`}, "the expression has 1043 bytes, more than 1024"},
		"steps":    {map[string]string{"a": `interfaces` + strings.Repeat(".x", 32)}, "column 74: the path has more than 32 steps"},
		"pipes":    {map[string]string{"a": `interfaces` + strings.Repeat("|interfaces", 8)}, "column 88: more than 8 expressions in a pipe"},
	} {
		t.Run(what, func(t *testing.T) {
			if _, err := evaluate(t, c.expressions, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is\n%v, expected\n%s", err, c.want)
			}
		})
	}
}

func TestCapture_ExpressionsWithinLimits_Evaluated(t *testing.T) {
	chain := map[string]string{"c0": `interfaces` + strings.Repeat("|interfaces", 7)}
	for i := range 63 {
		chain[fmt.Sprintf("c%d", i+1)] = fmt.Sprintf("capture.c%d", i)
	}
	got, err := evaluate(t, chain, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got["c0"], got["c63"]); diff != "" {
		t.Errorf("the first and the last of a chain differ:\n%s", diff)
	}
}

// Each capture has the former one in each interface: without a budget the last would have
// 3^63 values.
func TestCapture_MultiplyingResults_ErrorBeforeMemoryFull(t *testing.T) {
	bomb := map[string]string{"c0": `interfaces`}
	for i := range 63 {
		bomb[fmt.Sprintf("c%d", i+1)] = fmt.Sprintf("interfaces.x:=capture.c%d.interfaces", i)
	}
	if _, err := evaluate(t, bomb, nil); err == nil || !strings.Contains(err.Error(), "the result is too large; capture less") {
		t.Errorf("the error is %v", err)
	}
}
