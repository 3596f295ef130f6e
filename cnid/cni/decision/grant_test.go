// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// TestPluginDecision_WithoutGrant_NotRun is about the owner of a namespace that writes the allocation status
// of a pod and its AttachmentClaim, past all admission. The grants of administrators are in an
// object without a namespace, and decide which plugins run as root.
func TestPluginDecision_WithoutGrant_NotRun(t *testing.T) {
	const mine, theirs, file = "NetworkAttachmentDefinition/ns/lab", "NetworkAttachmentDefinition/other/lab", "NetworkAttachmentDefinition/ns/lab0"
	withMAC := func(d *netif.Delegate) *netif.Delegate { d.MAC = "02:00:00:00:00:01"; return d }
	withIP := func(d *netif.Delegate) *netif.Delegate { d.IP = "192.0.2.9/24"; return d }
	lent := multinet.Grant{Name: "lent", Namespaces: []string{"ns"}, FromNamespaces: []string{"other", "rented", "nowhere"}, Plugins: []string{"bridge"}}
	conf := func(plugins string) *netif.Delegate {
		return &netif.Delegate{Conf: json.RawMessage(`{"cniVersion":"1.0.0","name":"net","plugins":[` + plugins + `]}`)}
	}
	files := func(f netif.DelegateFile) *netif.Delegate { return &netif.Delegate{File: &f} }
	bridges := multinet.Grant{Name: "bridges", Namespaces: []string{"ns", "other"}, Plugins: []string{"bridge"}, IPAM: []string{"static"}}
	named := multinet.Grant{Name: "named", Networks: []string{"ns/lab0", "ClusterNetwork/ext"}, Plugins: []string{"bridge"}, IPAM: []string{"static"}}
	namedMAC := named
	namedMAC.Requests = []string{"mac"}
	const lentFile = "NetworkAttachmentDefinition/other/lab1"
	lentByName := lent
	lentByName.Networks = []string{"other/lab1"}
	for name, c := range map[string]struct {
		network   string
		described *netif.Delegate
		grants    []multinet.Grant
		tenant    string
		missing   string
	}{
		"as granted":                {mine, conf(`{"type":"bridge","ipam":{"type":"static"}}`), []multinet.Grant{bridges}, "", ""},
		"the second grant":          {mine, conf(`{"type":"bridge"}`), []multinet.Grant{{Name: "a", Namespaces: []string{"ns"}}, bridges}, "", ""},
		"no grant":                  {mine, conf(`{"type":"bridge"}`), nil, "", "no DelegationGrant names"},
		"a grant for another":       {"NetworkAttachmentDefinition/ns/x", conf(`{"type":"bridge"}`), []multinet.Grant{named}, "", "no DelegationGrant names"},
		"another plugin":            {mine, conf(`{"type":"host-device","device":"eth0"}`), []multinet.Grant{bridges}, "", `"host-device" is not granted`},
		"a second plugin":           {mine, conf(`{"type":"bridge"},{"type":"tuning"}`), []multinet.Grant{bridges}, "", `"tuning" is not granted`},
		"another IPAM plugin":       {mine, conf(`{"type":"bridge","ipam":{"type":"dhcp"}}`), []multinet.Grant{bridges}, "", `"dhcp" is not granted`},
		"a plugin that runs others": {mine, conf(`{"type":"bridge","delegate":{"type":"vrf"}}`), []multinet.Grant{bridges}, "", `"vrf" is not granted`},
		"no configuration":          {mine, conf(``), []multinet.Grant{bridges}, "", "plugins"},
		"a tenant's pod":            {mine, conf(`{"type":"bridge"}`), []multinet.Grant{bridges}, "blue", "pods of tenants"},
		"a grant of others":         {theirs, conf(`{"type":"bridge"}`), []multinet.Grant{bridges}, "", "for pods of namespace ns"},
		"lent":                      {theirs, conf(`{"type":"bridge"}`), []multinet.Grant{lent}, "", ""},
		"lent to others":            {theirs, conf(`{"type":"bridge"}`), []multinet.Grant{{Name: "lent", Namespaces: []string{"x"}, FromNamespaces: []string{"other"}, Plugins: []string{"bridge"}}}, "", "for pods of namespace ns"},
		"lent, another plugin":      {theirs, conf(`{"type":"vrf"}`), []multinet.Grant{lent}, "", `"vrf" is not granted`},
		"lent by a tenant":          {"NetworkAttachmentDefinition/rented/lab", conf(`{"type":"bridge"}`), []multinet.Grant{lent}, "", "namespace rented has a tenant label"},
		"lent by nobody known":      {"NetworkAttachmentDefinition/nowhere/lab", conf(`{"type":"bridge"}`), []multinet.Grant{lent}, "", "namespace nowhere has not been read"},
		"global":                    {"NetworkAttachmentDefinition/global/lab", conf(`{"type":"bridge"}`), []multinet.Grant{{Name: "global", Namespaces: []string{"global"}, Plugins: []string{"bridge"}}}, "", ""},
		"global without a grant":    {"NetworkAttachmentDefinition/global/lab", conf(`{"type":"bridge"}`), []multinet.Grant{bridges}, "", "for pods of namespace ns"},
		"a MAC in CNI_ARGS":         {mine, withMAC(conf(`{"type":"bridge"}`)), []multinet.Grant{bridges}, "", `does not permit the request "mac"`},
		"a MAC that is granted":     {mine, withMAC(conf(`{"type":"bridge"}`)), []multinet.Grant{{Name: "mac", Namespaces: []string{"ns"}, Plugins: []string{"bridge"}, Requests: []string{"mac"}}}, "", ""},
		"a configuration of a file": {"ClusterNetwork/ext", conf(`{"type":"bridge"}`), []multinet.Grant{named}, "", "no configuration of its own"},

		"a file of a ClusterNetwork":    {"ClusterNetwork/ext", files(netif.DelegateFile{NetworkID: "ext", Plugins: []string{"bridge"}}), []multinet.Grant{named}, "", ""},
		"a file with more plugins":      {"ClusterNetwork/ext", files(netif.DelegateFile{NetworkID: "ext", Plugins: []string{"bridge", "vrf"}}), []multinet.Grant{named}, "", "permits the plugins"},
		"a file with another IPAM":      {"ClusterNetwork/ext", files(netif.DelegateFile{NetworkID: "ext", IPAM: []string{"dhcp"}}), []multinet.Grant{named}, "", "permits the plugins"},
		"a file by name":                {file, files(netif.DelegateFile{Name: "lab0", Plugins: []string{"bridge"}}), []multinet.Grant{named}, "", ""},
		"a file of another name":        {file, files(netif.DelegateFile{Name: "lab1", Plugins: []string{"bridge"}}), []multinet.Grant{named}, "", "which a file of the nodes needs"},
		"a file by a namespace's grant": {file, files(netif.DelegateFile{Name: "lab0", Plugins: []string{"bridge"}}), []multinet.Grant{bridges}, "", "which a file of the nodes needs"},

		"addresses in CNI_ARGS":          {mine, withIP(conf(`{"type":"bridge"}`)), []multinet.Grant{bridges}, "", ""},
		"lent, addresses in CNI_ARGS":    {theirs, withIP(conf(`{"type":"bridge"}`)), []multinet.Grant{lent}, "", "in its own namespace alone"},
		"a file with addresses":          {file, files(netif.DelegateFile{Name: "lab0", Plugins: []string{"bridge"}, PlainIPs: true}), []multinet.Grant{named}, "", ""},
		"a file with a MAC":              {file, files(netif.DelegateFile{Name: "lab0", Plugins: []string{"bridge"}, PlainMAC: true}), []multinet.Grant{named}, "", `does not permit the request "mac"`},
		"a file with a granted MAC":      {file, files(netif.DelegateFile{Name: "lab0", Plugins: []string{"bridge"}, PlainMAC: true}), []multinet.Grant{namedMAC}, "", ""},
		"a file, lent by name":           {lentFile, files(netif.DelegateFile{Name: "lab1", Plugins: []string{"bridge"}}), []multinet.Grant{lentByName}, "", ""},
		"a lent file with addresses":     {lentFile, files(netif.DelegateFile{Name: "lab1", Plugins: []string{"bridge"}, PlainIPs: true}), []multinet.Grant{lentByName}, "", "in its own namespace alone"},
		"a cluster's file and addresses": {"ClusterNetwork/ext", files(netif.DelegateFile{NetworkID: "ext", Plugins: []string{"bridge"}, PlainIPs: true}), []multinet.Grant{named}, "", "in its own namespace alone"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDecided()
			one := physical("net1")
			one.Outside, one.Delegate = c.network, c.described
			d.more, d.grants, d.tenant = []netif.Interface{one}, c.grants, c.tenant
			got := d.decide(t, thePod)
			if (got.missing == "") != (c.missing == "") || !strings.Contains(got.missing, c.missing) {
				t.Errorf("answer %+v, want %q", got, c.missing)
			}
		})
	}
}

// TestPluginDecision_NamespaceUnknown_NotRun: a node that goes by the operator's verdicts follows
// few namespaces. A namespace without a row is not one without a tenant's label.
func TestPluginDecision_NamespaceUnknown_NotRun(t *testing.T) {
	d := newDecided()
	one := physical("net1")
	one.Outside, one.Delegate = "NetworkAttachmentDefinition/ns/lab", &netif.Delegate{
		Conf: json.RawMessage(`{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"bridge"}]}`),
	}
	d.more, d.grants, d.unfollowed = []netif.Interface{one}, []multinet.Grant{{Name: "bridges", Namespaces: []string{"ns"}, Plugins: []string{"bridge"}}}, true
	if got := d.decide(t, thePod); !strings.Contains(got.missing, "namespace ns has not been read") {
		t.Errorf("answer %+v, want that the namespace is missing", got)
	}
}
