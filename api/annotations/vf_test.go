// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
)

func number(n int) *int { return &n }

func TestParseVF_Settings_Read(t *testing.T) {
	for text, want := range map[string]struct {
		vf         netif.VF
		privileged []string
	}{
		`{}`:                                  {},
		`{"spoofchk":"on","trust":"off"}`:     {vf: netif.VF{SpoofCheck: "on", Trust: "off"}},
		`{"spoofchk":"off","trust":"on"}`:     {netif.VF{SpoofCheck: "off", Trust: "on"}, []string{"spoofchk", "trust"}},
		`{"link_state":"enable"}`:             {vf: netif.VF{LinkState: "enable"}},
		`{"min_tx_rate":0,"max_tx_rate":0}`:   {netif.VF{MinTxRate: number(0), MaxTxRate: number(0)}, []string{"min_tx_rate"}},
		`{"min_tx_rate":9,"max_tx_rate":9}`:   {netif.VF{MinTxRate: number(9), MaxTxRate: number(9)}, []string{"min_tx_rate"}},
		`{"min_tx_rate":9,"max_tx_rate":0}`:   {netif.VF{MinTxRate: number(9), MaxTxRate: number(0)}, []string{"min_tx_rate"}},
		`{"vlanQoS":7,"vlanProto":"802.1ad"}`: {netif.VF{QoS: number(7), Proto: "802.1ad"}, []string{"vlanProto", "vlanQoS"}},
	} {
		vf, err := annotations.ParseVF(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want.vf, vf); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if got := vf.Privileged(); !slices.Equal(got, want.privileged) {
			t.Errorf("%s: privileged are %v, want %v", text, got, want.privileged)
		}
	}
}

func TestParseVF_UnusableSettings_Refused(t *testing.T) {
	for text, cause := range map[string]string{
		``:                                   "'{'",
		`[]`:                                 "'{'",
		`{"spoofchk":true}`:                  `"spoofchk" has a value of the wrong type`,
		`{"spoofchk":"ON"}`:                  `"spoofchk" has no value "ON": use one of on, off`,
		`{"trust":"yes"}`:                    `"trust" has no value`,
		`{"link_state":"up"}`:                "auto, enable, disable",
		`{"linkState":"auto"}`:               "linkState",
		`{"vlan":5}`:                         "vlan",
		`{"vlanQoS":8}`:                      `"vlanQoS" is 8, and its values are 0 to 7`,
		`{"vlanProto":"802.1x"}`:             "802.1q, 802.1ad",
		`{"max_tx_rate":-1}`:                 `"max_tx_rate" is -1`,
		`{"max_tx_rate":1000001}`:            "0 to 1000000",
		`{"min_tx_rate":10,"max_tx_rate":9}`: `"min_tx_rate" is above "max_tx_rate"`,
		`{"trust":"off","trust":"on"}`:       "trust",
	} {
		if vf, err := annotations.ParseVF(text); err == nil || !strings.Contains(err.Error(), cause) {
			t.Errorf("%s: got %+v, %v; want %q", text, vf, err, cause)
		}
	}
}

func TestVFMerge_DefinitionSettings_AddedNeverReplaced(t *testing.T) {
	parse := func(text string) netif.VF {
		vf, err := annotations.ParseVF(text)
		if err != nil {
			t.Fatal(err)
		}
		return vf
	}
	for _, tc := range []struct{ network, definition, want, cause string }{
		{network: `{}`, definition: `{}`, want: `{}`},
		{network: `{"trust":"on"}`, definition: `{"max_tx_rate":5}`, want: `{"trust":"on","max_tx_rate":5}`},
		{network: `{}`, definition: `{"spoofchk":"off","vlanQoS":2}`, want: `{"spoofchk":"off","vlanQoS":2}`},
		{network: `{"max_tx_rate":5}`, definition: `{"max_tx_rate":0}`, cause: `the network has a value for "max_tx_rate"`},
		{network: `{"spoofchk":"on"}`, definition: `{"spoofchk":"off"}`, cause: `the network has a value for "spoofchk"`},
		{network: `{"max_tx_rate":5}`, definition: `{"min_tx_rate":9}`, cause: "above"},
	} {
		got, err := parse(tc.network).With(parse(tc.definition))
		if tc.cause != "" {
			if err == nil || !strings.Contains(err.Error(), tc.cause) {
				t.Errorf("%s with %s: got %v, want %q", tc.network, tc.definition, err, tc.cause)
			}
			continue
		}
		if diff := cmp.Diff(parse(tc.want), got); err != nil || diff != "" {
			t.Errorf("%s with %s: %v (-want +got):\n%s", tc.network, tc.definition, err, diff)
		}
	}
}

func TestVFTag_WithoutVLAN_Refused(t *testing.T) {
	for _, tc := range []struct {
		vf   netif.VF
		vlan uint32
		ok   bool
	}{
		{netif.VF{}, 0, true},
		{netif.VF{QoS: number(0)}, 0, true},
		{netif.VF{QoS: number(3)}, 0, false},
		{netif.VF{Proto: "802.1q"}, 0, false},
		{netif.VF{QoS: number(3), Proto: "802.1ad"}, 7, true},
	} {
		if err := tc.vf.CheckVLAN(tc.vlan); (err == nil) != tc.ok {
			t.Errorf("%+v on VLAN %d: %v", tc.vf, tc.vlan, err)
		}
	}
}

func FuzzParseVF(f *testing.F) {
	f.Add(`{"spoofchk":"off","trust":"on","link_state":"auto","min_tx_rate":1,"max_tx_rate":2,"vlanQoS":3,"vlanProto":"802.1q"}`)
	f.Add(`{"max_tx_rate":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		vf, err := annotations.ParseVF(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(vf)
		if err != nil {
			t.Fatal(err)
		}
		got, err := annotations.ParseVF(string(again))
		if diff := cmp.Diff(vf, got); err != nil || diff != "" {
			t.Errorf("%s became %s: %v\n%s", text, again, err, diff)
		}
		both, err := vf.With(netif.VF{})
		if diff := cmp.Diff(vf, both); err != nil || diff != "" {
			t.Errorf("with nothing more: %v\n%s", err, diff)
		}
	})
}
