// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target_test

import (
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cnid/nmstate/target"
)

const named = `interfaces:
- {name: eth1, type: ethernet, state: up, alt-names: [{name: enp1s0}, {name: port1}]}
- {name: eth2, type: ethernet, state: up}
- {name: dummy0, type: dummy, state: up, alt-names: [{name: spare}]}`

func TestTarget_AlternativeNames_Merged(t *testing.T) {
	for desired, want := range map[string]string{
		`interfaces: [{name: eth1, alt-names: [{name: a}, {name: port1, state: absent}]}]`: `a enp1s0 -port1`,
		`interfaces: [{name: eth1, alt-names: []}]`:                                        `enp1s0 port1`,
		`interfaces: [{name: eth1, mtu: 1400}]`:                                            `enp1s0 port1`,
		`interfaces: [{name: eth1, state: absent}]`:                                        `-enp1s0 -port1`,
		`interfaces: [{name: eth1, state: absent, alt-names: [{name: new}]}]`:              `-enp1s0 -port1`,
	} {
		var list []string
		for _, a := range over(t, named, desired).Interfaces[0].AltNames {
			list = append(list, map[bool]string{true: "-"}[a.State != ""]+a.Name)
		}
		if got := strings.Join(list, " "); got != want {
			t.Errorf("%s: got %s, want %s", desired, got, want)
		}
	}
}

func TestTarget_InterfaceNames_UniqueOrRefused(t *testing.T) {
	long := strings.Repeat("x", 127)
	for _, c := range []struct{ desired, want string }{
		{`interfaces: [{name: eth2, alt-names: [{name: ` + long + `}]}]`, ""},
		{`interfaces: [{name: eth2, alt-names: [{name: spare}]}, {name: dummy0, state: absent}]`, ""},
		{`interfaces: [{name: eth2, alt-names: [{name: port1}]}, {name: eth1, alt-names: [{name: port1, state: absent}]}]`, ""},
		{`interfaces: [{name: eth1, alt-names: [{name: port1}]}]`, ""},
		{`interfaces: [{name: eth2, alt-names: [{name: gone, state: absent}]}]`, ""},
		{`interfaces: [{name: eth2, alt-names: [{name: x` + long + `}]}]`, `interfaces[0].alt-names[0].name: "x` + long + `": want 1 to 127 bytes without slash, colon and space, and neither . nor ..`},
		{`interfaces: [{name: eth2, alt-names: [{name: ""}]}]`, `interfaces[0].alt-names[0].name: "": want 1 to 127 bytes without slash, colon and space, and neither . nor ..`},
		{`interfaces: [{name: eth2, alt-names: [{name: a, state: up}]}]`, `interfaces[0].alt-names[0].state: up: want one of absent`},
		{`interfaces: [{name: eth2, alt-names: [{name: a}, {name: a, state: absent}]}]`, `interfaces[0].alt-names[1].name: a: it is in the list twice`},
		{`interfaces: [{name: eth2, alt-names: [{name: eth2}]}]`, `interfaces[0].alt-names[0].name: eth2: an interface has that name: choose another one`},
		{`interfaces: [{name: eth2, alt-names: [{name: dummy0}]}]`, `interfaces[0].alt-names[0].name: dummy0: an interface has that name: choose another one`},
		{`interfaces: [{name: eth2, alt-names: [{name: new}]}, {name: new, type: dummy}]`, `interfaces[0].alt-names[0].name: new: an interface has that name: choose another one`},
		{`interfaces: [{name: eth2, alt-names: [{name: port1}]}]`, `interfaces[0].alt-names[0].name: port1: it is an alternative name of eth1: choose another one, or make it absent there`},
		{`interfaces: [{name: eth2, alt-names: [{name: port1}]}, {name: eth1}]`, `interfaces[0].alt-names[0].name: port1: it is an alternative name of eth1: choose another one, or make it absent there`},
		{`interfaces: [{name: eth2, alt-names: [{name: b}]}, {name: eth1, alt-names: [{name: b}]}]`, "interfaces[0].alt-names[0].name: b: it is an alternative name of eth1: choose another one, or make it absent there\n" +
			"interfaces[1].alt-names[0].name: b: it is an alternative name of eth2: choose another one, or make it absent there"},
	} {
		_, err := target.Resolve(parse(t, c.desired), parse(t, named))
		if got := wordsOf(err); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.desired, got, c.want)
		}
	}
}

func wordsOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestTarget_AlternativeNameInDocument_InterfaceFound(t *testing.T) {
	for desired, want := range map[string]string{
		`interfaces: [{name: port1, mtu: 1280}]`:                                     "eth1",
		`interfaces: [{name: port1, state: absent}, {name: eth1, state: absent}]`:    "eth1",
		`interfaces: [{name: spare, type: dummy, state: absent, made-by: alioth}]`:   "spare",
		`interfaces: [{name: port1, state: absent}, {name: eth1}]`:                   "interfaces[1].name: eth1: interfaces[0] has that name too",
		`interfaces: [{name: port1}, {name: eth1, state: absent}]`:                   "interfaces[1].name: eth1: interfaces[0] has that name too",
		`interfaces: [{name: port1, mtu: 1280}, {name: enp1s0, description: twice}]`: "interfaces[1].name: eth1: interfaces[0] has that name too",
	} {
		d, err := target.KernelNames(parse(t, desired), parse(t, named))
		if err != nil {
			t.Fatal(err)
		}
		to, err := target.Resolve(d, parse(t, named))
		got := wordsOf(err)
		if err == nil {
			got = to.Interfaces[0].Name
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", desired, got, want)
		}
	}
}
