// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package delegation_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/store/delegation"
)

// onLinks builds a configuration as that of a definition is.
func onLinks(text string, links bool) (delegation.Config, error) {
	return delegation.Build(delegation.Request{
		Where: "here", Text: []byte(text), Name: "net", Links: links,
		Allowed: delegation.Allowed{Plugins: []string{"macvlan", "ipvlan", "bridge", "tuning"}},
	})
}

func TestTheNumberOfALinkIsTakenFromTheFirstPlugin(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want *delegation.Link
	}{
		"a VLAN":             {`{"type":"macvlan","master":"ens4","vlan":100}`, &delegation.Link{Master: "ens4", VLAN: 100}},
		"a VXLAN in a list":  {`{"plugins":[{"type":"ipvlan","master":"ens4","vxlan":16777215},{"type":"tuning","vlan":7}]}`, &delegation.Link{Master: "ens4", VXLAN: 16777215}},
		"none":               {`{"type":"macvlan","master":"ens4"}`, nil},
		"0 is none":          {`{"type":"macvlan","master":"ens4","vlan":0}`, nil},
		"a plugin's own key": {`{"type":"bridge","vlan":100}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := onLinks(c.text, true)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.Link); diff != "" {
				t.Errorf("link (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.want, delegation.LinkOf([]byte(c.text))); diff != "" {
				t.Errorf("link at first sight (-want +got):\n%s", diff)
			}
			if strings.Contains(string(got.JSON), `lan":100`) != (name == "a plugin's own key") || strings.Contains(string(got.JSON), "16777215") {
				t.Errorf("the plugins get %s", got.JSON)
			}
		})
	}
	file, err := onLinks(`{"type":"macvlan","master":"ens4","vlan":100}`, false)
	if err != nil || file.Link != nil || !strings.Contains(string(file.JSON), `"vlan":100`) {
		t.Errorf("a file of the node becomes %s, %v", file.JSON, err)
	}
}

func TestLinksThatAreRefusedNameTheField(t *testing.T) {
	for text, says := range map[string]string{
		`{"type":"macvlan","master":"ens4","vlan":4095}`:                  "vlan: \"4095\" is not a number from 0 to 4094",
		`{"type":"macvlan","master":"ens4","vxlan":"100"}`:                "vxlan: ",
		`{"type":"macvlan","master":"ens4","vlan":-1}`:                    "vlan: ",
		`{"type":"macvlan","master":"ens4","vlan":1,"vxlan":1}`:           "exclude each other",
		`{"type":"macvlan","vlan":100}`:                                   "master: a VLAN or VXLAN has a device",
		`{"type":"macvlan","master":"muchtoolongforadevice","vlan":1}`:    "master: ",
		`{"type":"macvlan","master":"ens4","VLAN":100}`:                   "could be read as vlan",
		`{"type":"macvlan","Master":"ens5","master":"ens4","vxlan":1000}`: "could be read as master",
	} {
		if got, err := onLinks(text, true); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s becomes %s, %v, want %q", text, got.JSON, err, says)
		}
		if got := delegation.LinkOf([]byte(text)); got != nil {
			t.Errorf("%s has the link %+v at first sight", text, got)
		}
	}
}

func TestThePluginGetsTheLinkAsItsMaster(t *testing.T) {
	built, err := onLinks(`{"plugins":[{"type":"macvlan","master":"ens4","vlan":100,"mtu":1400},{"type":"tuning"}]}`, true)
	if err != nil {
		t.Fatal(err)
	}
	conf, err := delegation.OnLink(built.JSON, "red.100")
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(conf, &got); err != nil {
		t.Fatal(err)
	}
	text := `{"cniVersion":"0.1.0","name":"net","plugins":[{"type":"macvlan","master":"red.100","mtu":1400},{"type":"tuning"}]}`
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, text := range []string{"", "{}", `{"plugins":[]}`, `{"plugins":1}`} {
		if conf, err := delegation.OnLink([]byte(text), "red.100"); err == nil {
			t.Errorf("%q becomes %s", text, conf)
		}
	}
}
