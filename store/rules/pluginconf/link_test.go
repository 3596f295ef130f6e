// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pluginconf

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/cniconf"
)

// TestBuild_LinkOfDefinitionOrFile_OnlyDefinition builds one text for both.
func TestBuild_LinkOfDefinitionOrFile_OnlyDefinition(t *testing.T) {
	r := request(`{"plugins":[{"type":"macvlan","master":"ens4","vlan":100},{"type":"tuning"}]}`)
	allow("macvlan")(&r)
	r.Allowed.Plugins = append(r.Allowed.Plugins, "tuning")
	for links, want := range map[bool]*cniconf.Link{true: {Master: "ens4", VLAN: 100}, false: nil} {
		r.Links = links
		got, err := Build(r)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Link); diff != "" {
			t.Errorf("links %v: link (-want +got):\n%s", links, diff)
		}
		if strings.Contains(string(got.JSON), `"vlan":100`) == links {
			t.Errorf("links %v: the plugins get %s", links, got.JSON)
		}
	}
}

func TestBuild_LinkRefused_ConfigurationRefused(t *testing.T) {
	r := request(`{"type":"macvlan","master":"ens4","vlan":4095}`)
	allow("macvlan")(&r)
	r.Links = true
	if got, err := Build(r); err == nil || !strings.Contains(err.Error(), "vlan: \"4095\" is not a number") {
		t.Errorf("the configuration becomes %s, %v", got.JSON, err)
	}
}
