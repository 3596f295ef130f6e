// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniconf_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/cniconf"
)

// takeLink parses a configuration and takes its link.
func takeLink(t *testing.T, text string) (*cniconf.List, *cniconf.Link, error) {
	t.Helper()
	l, err := cniconf.Parse("here", "net", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	link, err := l.TakeLink()
	return l, link, err
}

func TestLink_VLANOrVXLAN_TakenFromFirstPlugin(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want *cniconf.Link
	}{
		"a VLAN":             {`{"type":"macvlan","master":"ens4","vlan":100}`, &cniconf.Link{Master: "ens4", VLAN: 100}},
		"a VXLAN in a list":  {`{"plugins":[{"type":"ipvlan","master":"ens4","vxlan":16777215},{"type":"tuning","vlan":7}]}`, &cniconf.Link{Master: "ens4", VXLAN: 16777215}},
		"none":               {`{"type":"macvlan","master":"ens4"}`, nil},
		"0 is none":          {`{"type":"macvlan","master":"ens4","vlan":0}`, nil},
		"a plugin's own key": {`{"type":"bridge","vlan":100}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l, got, err := takeLink(t, c.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("link (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.want, cniconf.LinkOf([]byte(c.text))); diff != "" {
				t.Errorf("link at first sight (-want +got):\n%s", diff)
			}
			_, vlan := l.Plugins[0]["vlan"]
			_, vxlan := l.Plugins[0]["vxlan"]
			if vlan != (name == "a plugin's own key") || vxlan {
				t.Errorf("the first plugin gets %s", l.Plugins[0])
			}
		})
	}
	if link, err := (&cniconf.List{}).TakeLink(); link != nil || err != nil {
		t.Errorf("no plugin has the link %+v, %v", link, err)
	}
}

func TestLink_Wrong_RefusedWithField(t *testing.T) {
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
		if _, got, err := takeLink(t, text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s has the link %+v, %v, want %q", text, got, err, says)
		}
		if got := cniconf.LinkOf([]byte(text)); got != nil {
			t.Errorf("%s has the link %+v at first sight", text, got)
		}
	}
}

func TestOnLink_FirstPlugin_MasterReplaced(t *testing.T) {
	built := `{"cniVersion":"0.1.0","name":"net","plugins":[{"type":"macvlan","master":"ens4","mtu":1400},{"type":"tuning"}]}`
	conf, err := cniconf.OnLink([]byte(built), "red.100")
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(conf, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(strings.Replace(built, "ens4", "red.100", 1)), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, text := range []string{"", "{}", `{"plugins":[]}`, `{"plugins":1}`} {
		if conf, err := cniconf.OnLink([]byte(text), "red.100"); err == nil {
			t.Errorf("%q becomes %s", text, conf)
		}
	}
}
