// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package interfaces_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/interfaces"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/operator/pod"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

const bridgeConfig = `{"cniVersion":"1.0.0","type":"bridge","capabilities":{"mac":true,"ips":true},"ipam":{"type":"host-local"}}`

func configured(name, config string) *multinet.Definition {
	d := definition("a", name, annotations.Target{})
	d.Config = config
	return d
}

func grant(name string, change func(*multinet.Grant)) *multinet.Grant {
	g := &multinet.Grant{Meta: operatortest.Meta("uid-grant-"+name, 0), Name: name, Plugins: []string{"bridge"}, IPAM: []string{"host-local"}}
	change(g)
	return g
}

func ofNamespace(namespaces ...string) func(*multinet.Grant) {
	return func(g *multinet.Grant) { g.Namespaces = namespaces }
}

// ofNobody makes the pod one of a namespace without a tenant label.
func ofNobody(selections string) func(*store.Pod) {
	return func(p *store.Pod) { p.Tenant, p.Selections = "ns:a", selections }
}

func TestPlugins_NotGranted_Refused(t *testing.T) {
	withDevice := configured("device", bridgeConfig)
	withDevice.ResourceName = "vendor.example/nic"
	leaving := grant("leaving", ofNamespace("a"))
	leaving.Deleting = true
	for _, tc := range []struct {
		name, selections string
		grants           []any
		reason, text     string
	}{
		{"granted to the namespace", "net", []any{grant("g", ofNamespace("b", "a"))}, "", ""},
		{"granted to the network", "net", []any{grant("g", func(g *multinet.Grant) { g.Networks = []string{"a/net"} })}, "", ""},
		{"the second of two grants permits it", "net", []any{
			grant("f", func(g *multinet.Grant) { g.Namespaces, g.Plugins = []string{"a"}, []string{"macvlan"} }), grant("g", ofNamespace("a")),
		}, "", ""},
		{"no grant", "net", nil, v1alpha1.DelegationNotGrantedReason, "no DelegationGrant names it"},
		{"a grant that ends", "net", []any{leaving}, v1alpha1.DelegationNotGrantedReason, "no DelegationGrant names it"},
		{"a grant to another namespace", "net", []any{grant("g", ofNamespace("b"))}, v1alpha1.DelegationNotGrantedReason, "no DelegationGrant names it"},
		{"a grant to another network", "net", []any{grant("g", func(g *multinet.Grant) { g.Networks = []string{"a/network", "net"} })}, v1alpha1.DelegationNotGrantedReason, "no DelegationGrant"},
		{"another plugin", "net", []any{grant("g", func(g *multinet.Grant) { g.Namespaces, g.Plugins = []string{"a"}, []string{"macvlan"} })}, v1alpha1.DelegationNotGrantedReason, `"bridge"`},
		{"the IPAM is not granted", "net", []any{grant("g", func(g *multinet.Grant) { g.Namespaces, g.IPAM = []string{"a"}, nil })}, v1alpha1.DelegationNotGrantedReason, "ipam"},
		{"plugin and IPAM of two grants", "net", []any{
			grant("f", func(g *multinet.Grant) { g.Namespaces, g.IPAM = []string{"a"}, nil }),
			grant("g", func(g *multinet.Grant) { g.Namespaces, g.Plugins = []string{"a"}, []string{"macvlan"} }),
		}, v1alpha1.DelegationNotGrantedReason, ""},
		{"a second plugin in the list", "list", []any{grant("g", ofNamespace("a"))}, v1alpha1.DelegationNotGrantedReason, `"tuning"`},
		{"a path", "path", []any{grant("g", ofNamespace("a"))}, v1alpha1.DelegationNotGrantedReason, "type"},
		{"Alioth's own", "own", []any{grant("g", func(g *multinet.Grant) { g.Namespaces, g.Plugins = []string{"a"}, []string{"alioth"} })}, v1alpha1.DelegationNotGrantedReason, `"alioth" is a program of Alioth`},
		{"arguments", `[{"name":"net","cni-args":{"x":1}}]`, []any{grant("g", ofNamespace("a"))}, v1alpha1.DelegationNotGrantedReason, `"cni-args"`},
		{"a MAC", `[{"name":"net","mac":"02:00:00:00:00:01"}]`, []any{grant("g", ofNamespace("a"))}, v1alpha1.DelegationNotGrantedReason, `"mac"`},
		{"a MAC that is granted", `[{"name":"net","mac":"02:00:00:00:00:01"}]`, []any{grant("g", func(g *multinet.Grant) { g.Namespaces, g.Requests = []string{"a"}, []string{"mac"} })}, "", ""},
		{"ports without the capability", `[{"name":"net","portMappings":[{"hostPort":80,"containerPort":80}]}]`, []any{grant("g", ofNamespace("a"))}, "", ""},
		{"a device", "device", []any{grant("g", ofNamespace("a"))}, v1alpha1.NetworkTypeReason, "needs a device"},
		{"the default route", `[{"name":"net","default-route":["10.9.0.1"]}]`, []any{grant("g", ofNamespace("a"))}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rows := world(append(tc.grants, configured("net", bridgeConfig), withDevice,
				configured("list", `{"cniVersion":"1.0.0","plugins":[{"type":"bridge","ipam":{"type":"host-local"}},{"type":"tuning"}]}`),
				configured("path", `{"type":"../bin/sh"}`), configured("own", `{"type":"alioth"}`))...)
			desired, refusal := decide(t, "", rows, ofNobody(tc.selections))
			switch {
			case tc.reason == "" && refusal != "":
				t.Errorf("refused with %q", refusal)
			case tc.reason == "" && len(desired) != 2:
				t.Errorf("the pod gets %v", short(desired))
			case tc.reason != "" && (!strings.HasPrefix(refusal, tc.reason+": ") || !strings.Contains(refusal, tc.text)):
				t.Errorf("refused with %q, want %s with %q", refusal, tc.reason, tc.text)
			}
		})
	}
}

// NPWG 1.2: with default-route on one element, the default network has no default route.
func TestDefaultRoute_PluginInterfaceChosen_LeadsThroughIt(t *testing.T) {
	rows := world(configured("net", bridgeConfig), grant("g", ofNamespace("a")))
	for name, tc := range map[string]struct {
		selections string
		want       []string
	}{
		"by gateways":            {`[{"name":"net","default-route":["10.9.0.1","fd09::1"]},{"name":"net"}]`, []string{"eth0 false", "net1 10.9.0.1 fd09::1", "net2"}},
		"by the plugin's own":    {`[{"name":"net","default-route":[]}]`, []string{"eth0 false", "net1"}},
		"nothing is requested":   {`net`, []string{"eth0 true", "net1"}},
		"by another interface":   {`[{"name":"net"},{"name":"vpc","default-route":[]}]`, []string{"eth0 false", "net1", "net2 true"}},
		"a gateway of no subnet": {`[{"name":"net"},{"name":"vpc","default-route":["10.9.0.1"]}]`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			desired, refusal := decide(t, "", append(rows, definition("a", "vpc", toVPC("default", ""))), ofNobody(tc.selections))
			if diff := cmp.Diff(tc.want, defaults(desired)); diff != "" || (refusal == "") != (tc.want != nil) {
				t.Errorf("refused with %q (-want +got):\n%s", refusal, diff)
			}
		})
	}
}

// TestPlugins_LinkOfNodes_NumberHidden is DANM's netwatcher: the plugin does not know the number.
func TestPlugins_LinkOfNodes_NumberHidden(t *testing.T) {
	const tagged = `{"cniVersion":"1.0.0","type":"macvlan","master":"ens4","vlan":100}`
	def := configured("net", tagged)
	def.Link = multinet.LinkID{Device: "ens4", Type: multinet.VLAN, VNI: 100}
	granted := grant("g", func(g *multinet.Grant) { g.Namespaces, g.Plugins = []string{"a"}, []string{"macvlan"} })
	desired, refusal := decide(t, "", world(def, granted), ofNobody("net"))
	if refusal != "" || len(desired) != 2 {
		t.Fatalf("%v, refused with %q", short(desired), refusal)
	}
	if got := desired[1].Link; got.Parent != "ens4" || got.VLAN != 100 || got.VXLAN != 0 {
		t.Errorf("the link is %+v", got)
	}
	if conf := string(desired[1].Delegate.Conf); strings.Contains(conf, "vlan\":100") {
		t.Errorf("the plugin gets %s", conf)
	}
	number := &multinet.HostVNIClaim{
		Meta: store.Meta{UID: "n", ResourceVersion: "1"}, Name: "n", Type: multinet.VLAN, VNI: 100, Device: "ens4",
		Network: multinet.Ref{Kind: multinet.KindTenantNetwork, Namespace: "b", Name: "theirs"},
	}
	if _, refusal = decide(t, "", world(def, granted, number), ofNobody("net")); !strings.Contains(refusal, "VLAN 100 on ens4 belongs to a TenantNetwork") ||
		strings.Contains(refusal, "theirs") {
		t.Errorf("with a tenant's number: refused with %q", refusal)
	}
}

// TestPlugins_LinkAboveLimit_Refused: an older definition of the namespace has the last link.
func TestPlugins_LinkAboveLimit_Refused(t *testing.T) {
	on := func(name string, vlan, age int) *multinet.Definition {
		def := configured(name, fmt.Sprintf(`{"cniVersion":"1.0.0","type":"macvlan","master":"ens4","vlan":%d}`, vlan))
		def.Meta = operatortest.Meta("uid-nad-a-"+name, age)
		def.Link = multinet.LinkID{Device: "ens4", Type: multinet.VLAN, VNI: uint32(vlan)}
		return def
	}
	granted := grant("g", func(g *multinet.Grant) { g.Namespaces, g.Plugins = []string{"a"}, []string{"macvlan"} })
	rows := world(on("old", 100, 0), on("young", 101, 5), on("shared", 100, 9), granted)
	for name, want := range map[string]string{"old": "", "shared": "", "young": "have 1 links, which is the limit"} {
		p := operatortest.Pod("ns:a", "a", "p", "", "")
		p.Selections = name
		operatortest.New(t, rows...).View(func(tx store.ReadTx) {
			_, refusal := interfaces.Source(interfaces.Config{
				DefaultVPC: "default", Annotations: []string{interfaces.AnnotationNPWG}, Delegation: true, Limit: 16, Links: 1,
			})(tx, p)
			if (refusal == nil) != (want == "") || refusal != nil && !strings.Contains(refusal.Message, want) {
				t.Errorf("%s: %+v", name, refusal)
			}
		})
	}
}

func TestPlugins_TenantPod_Refused(t *testing.T) {
	rows := world(configured("net", bridgeConfig), grant("g", ofNamespace("a")))
	if desired, refusal := decide(t, "", rows, selecting("net")); !strings.Contains(refusal, "pods of tenants") {
		t.Errorf("%v, %q", short(desired), refusal)
	}
}

// Manifests of Multus request values that a definition does not take: the pod starts, and an event
// names the value and the capability.
func TestPluginRequests_NoCapability_LeftOutWithEvent(t *testing.T) {
	plain := configured("plain", `{"cniVersion":"1.0.0","type":"bridge","ipam":{"type":"static","addresses":[{"address":"10.64.0.5/24"}]}}`)
	static := func(g *multinet.Grant) { g.Namespaces, g.IPAM = []string{"a"}, []string{"static"} }
	withMAC := func(g *multinet.Grant) { static(g); g.Requests = []string{"mac"} }
	for name, tc := range map[string]struct {
		key, value, capability string
		grant                  func(*multinet.Grant)
		fate                   string
		ip, mac                string
	}{
		"ips":                {"ips", `["10.64.0.9/24"]`, "ips", static, "reaches the plugins as IP of CNI_ARGS alone", "10.64.0.9/24", ""},
		"ips without length": {"ips", `["10.64.0.9"]`, "ips", static, "is ignored", "", ""},
		"mac":                {"mac", `"02:00:00:00:00:01"`, "mac", static, "is ignored", "", ""},
		"mac, granted":       {"mac", `"02:00:00:00:00:01"`, "mac", withMAC, "reaches the plugins as MAC of CNI_ARGS alone", "", "02:00:00:00:00:01"},
		"infiniband-guid":    {"infiniband-guid", `"c2:11:22:33:44:55:66:77"`, "infinibandGUID", static, "is ignored", "", ""},
		"portMappings":       {"portMappings", `[{"hostPort":80,"containerPort":80}]`, "portMappings", static, "is ignored", "", ""},
		"bandwidth":          {"bandwidth", `{"ingressRate":1000}`, "bandwidth", static, "is ignored", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			desired, refusal := decide(t, "", world(plain, grant("g", tc.grant)), ofNobody(fmt.Sprintf(`[{"name":"plain",%q:%s}]`, tc.key, tc.value)))
			if refusal != "" || len(desired) != 2 {
				t.Fatalf("%v, refused with %q", short(desired), refusal)
			}
			if d := desired[1].Delegate; strings.Contains(string(d.Conf), "runtimeConfig") || d.IP != tc.ip || d.MAC != tc.mac {
				t.Errorf("the plugins get %s, IP %q, MAC %q", d.Conf, d.IP, d.MAC)
			}
			expectNotices(
				t,
				desired,
				v1alpha1.RequestIgnoredReason,
				fmt.Sprintf("%q %s: no plugin has the capability for it, which is \"capabilities\": {%q: true}", tc.key, tc.fate, tc.capability),
			)
		})
	}
	desired, refusal := decide(t, "", world(plain, grant("g", static)), ofNobody(`[{"name":"plain","gateway":["10.64.0.1"],"deviceID":"0000:00:01.0"}]`))
	if refusal != "" {
		t.Fatal(refusal)
	}
	expectNotices(t, desired, v1alpha1.RequestIgnoredReason, `"deviceID" is ignored: the kubelet chooses`, `"gateway" is ignored: it is no key of a selection`)
	guid := configured("guid", `{"cniVersion":"1.0.0","type":"bridge","capabilities":{"infinibandGUID":true},"ipam":{"type":"static"}}`)
	if _, refusal := decide(t, "", world(guid, grant("g", static)), ofNobody(`[{"name":"guid","infiniband-guid":"c2:11:22:33:44:55:66:77"}]`)); !strings.Contains(
		refusal,
		`does not permit the request "infiniband-guid"`,
	) {
		t.Errorf("a GUID without a grant: refused with %q", refusal)
	}
}

// NPWG device information 1.1: a plugin with the capability describes its device in a file,
// which the network status then has.
func TestPluginRequests_DeviceInfoCapability_FileNamed(t *testing.T) {
	described := configured("net", `{"cniVersion":"1.0.0","type":"bridge","capabilities":{"CNIDeviceInfoFile":true}}`)
	desired, refusal := decide(
		t,
		"",
		world(described, configured("bare", `{"cniVersion":"1.0.0","type":"bridge"}`), grant("g", ofNamespace("a"))),
		ofNobody("net,bare"),
		func(p *store.Pod) { p.UID = "uid-p" },
	)
	if refusal != "" || len(desired) != 3 {
		t.Fatalf("%v, refused with %q", short(desired), refusal)
	}
	const want = `"runtimeConfig":{"CNIDeviceInfoFile":"/var/run/k8s.cni.cncf.io/devinfo/cni/uid-p-net1.json"}`
	if got := string(desired[1].Delegate.Conf); !strings.Contains(got, want) || noticesOf(desired) != nil {
		t.Errorf("the plugin gets %s, want %s; events %q", got, want, noticesOf(desired))
	}
	if got := string(desired[2].Delegate.Conf); strings.Contains(got, "runtimeConfig") {
		t.Errorf("a plugin without the capability gets %s", got)
	}
}

// A definition serves pods of other namespaces only if administrators lend it to these namespaces.
func TestDefinition_OtherNamespace_NeedsGrantOrGlobalNamespace(t *testing.T) {
	shared := &store.Namespace{Meta: operatortest.Meta("uid-ns-shared", 0), Name: "shared", Tenant: "ns:shared"}
	rented := &store.Namespace{Meta: operatortest.Meta("uid-ns-rented", 0), Name: "rented", Tenant: "red"}
	own := &store.Namespace{Meta: operatortest.Meta("uid-ns-a", 0), Name: "a", Tenant: "ns:a"}
	in := func(namespace, name, config string, target annotations.Target) *multinet.Definition {
		def := definition(namespace, name, target)
		def.Config = config
		return def
	}
	rows := []any{
		shared, rented, own, in("shared", "net-c", bridgeConfig, annotations.Target{}), in("rented", "net-c", bridgeConfig, annotations.Target{}),
		in(
			"shared",
			"vpc",
			"",
			toVPC("default", ""),
		), in("shared", "danm", "", toDanmNet("internal")), in("shared", "file", "", annotations.Target{}), danmNet("internal"),
		in("shared", "plain", `{"cniVersion":"1.0.0","type":"bridge","ipam":{"type":"host-local"}}`, annotations.Target{}),
	}
	lends := func(to, from string) func(*multinet.Grant) {
		return func(g *multinet.Grant) { g.Namespaces, g.FromNamespaces = []string{to}, []string{from} }
	}
	bare := func(to, from string) func(*multinet.Grant) {
		return func(g *multinet.Grant) { lends(to, from)(g); g.Plugins, g.IPAM = nil, nil }
	}
	named := func(g *multinet.Grant) { lends("a", "shared")(g); g.Networks = []string{"shared/file"} }
	for _, tc := range []struct {
		name, selections string
		grants           []any
		global           []string
		reason, text     string
	}{
		{"lent", "shared/net-c", []any{grant("g", lends("a", "shared"))}, nil, "", ""},
		{"lent to another namespace", "shared/net-c", []any{grant("g", lends("b", "shared"))}, nil, v1alpha1.TenantNotAllowedReason, "spec.namespaces: [a] and spec.fromNamespaces: [shared]"},
		{"of another namespace", "shared/net-c", []any{grant("g", lends("a", "other"))}, nil, v1alpha1.TenantNotAllowedReason, "not shared with namespace"},
		{"the lender has a grant for itself alone", "shared/net-c", []any{grant("g", ofNamespace("shared"))}, nil, v1alpha1.TenantNotAllowedReason, "not shared"},
		{"a grant that ends", "shared/net-c", []any{func() any { g := grant("g", lends("a", "shared")); g.Deleting = true; return g }()}, nil, v1alpha1.TenantNotAllowedReason, "not shared"},
		{"lent without plugins", "shared/net-c", []any{grant("g", bare("a", "shared"))}, nil, v1alpha1.DelegationNotGrantedReason, `"bridge" is not granted`},
		{"plugins of another grant do not add up", "shared/net-c", []any{grant("f", bare("a", "shared")), grant("g", ofNamespace("a", "shared"))}, nil, v1alpha1.DelegationNotGrantedReason, `"bridge" is not granted`},
		{"of a tenant", "rented/net-c", []any{grant("g", lends("a", "rented"))}, nil, v1alpha1.DelegationNotGrantedReason, "definitions of tenants run no CNI plugins"},
		{"of a tenant in a global namespace", "rented/net-c", []any{grant("g", ofNamespace("rented"))}, []string{"rented"}, v1alpha1.DelegationNotGrantedReason, "definitions of tenants"},
		{"global, granted", "shared/net-c", []any{grant("g", ofNamespace("shared"))}, []string{"shared"}, "", ""},
		{"global, the network is granted", "shared/net-c", []any{grant("g", func(g *multinet.Grant) { g.Networks = []string{"shared/net-c"} })}, []string{"shared"}, "", ""},
		{"global, and no grant", "shared/net-c", nil, []string{"shared"}, v1alpha1.DelegationNotGrantedReason, "no DelegationGrant"},
		{"global, and a grant of the pod's namespace", "shared/net-c", []any{grant("g", ofNamespace("a"))}, []string{"shared"}, v1alpha1.DelegationNotGrantedReason, "no DelegationGrant"},
		{"a VPC, lent", "shared/vpc", []any{grant("g", bare("a", "shared"))}, nil, "", ""},
		{"a VPC, global", "shared/vpc", nil, []string{"shared"}, "", ""},
		{"a VPC that nobody shares", "shared/vpc", nil, nil, v1alpha1.TenantNotAllowedReason, "not shared"},
		{"a DanmNet of the lender", "shared/danm", []any{grant("g", bare("a", "shared"))}, nil, v1alpha1.TenantNotAllowedReason, "pods of other namespaces can't use"},
		{"a file, lent", "shared/file", []any{grant("g", lends("a", "shared"))}, nil, v1alpha1.DelegationNotGrantedReason, "does not name it in spec.networks"},
		{"a file, lent by name", "shared/file", []any{grant("g", named)}, nil, "", ""},
		{"as the default network", "", []any{grant("g", lends("a", "shared"))}, nil, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			choose := func(p *store.Pod) {
				if tc.selections == "" {
					p.DefaultSelection = "shared/net-c"
				}
			}
			desired, refusal := decideWith(
				t,
				interfaces.Config{Sharing: multinet.Sharing{Global: tc.global}},
				"",
				world(append(tc.grants, rows...)...),
				ofNobody(tc.selections),
				choose,
			)
			switch {
			case tc.reason == "" && (refusal != "" || len(desired) == 0):
				t.Errorf("the pod gets %v, refused with %q", short(desired), refusal)
			case tc.reason != "" && (!strings.HasPrefix(refusal, tc.reason+": ") || !strings.Contains(refusal, tc.text)):
				t.Errorf("refused with %q, want %s with %q", refusal, tc.reason, tc.text)
			}
		})
	}
	// The author of a definition of another namespace alone says whether pods choose addresses.
	desired, refusal := decide(
		t,
		"",
		world(append(rows, grant("g", lends("a", "shared")))...),
		ofNobody(`[{"name":"plain","namespace":"shared","ips":["10.9.0.5"]}]`),
	)
	if refusal != "" || desired[1].Delegate.IP != "" {
		t.Errorf("refused with %q, %+v", refusal, desired)
	}
	expectNotices(t, desired, v1alpha1.RequestIgnoredReason, `"ips" is ignored`)
	// A file of the nodes is not the pod's either: nodes learn so from the annotation.
	desired, refusal = decide(t, "", world(append(rows, grant("g", func(g *multinet.Grant) { named(g); g.Requests = []string{"mac"} }))...),
		ofNobody(`[{"name":"file","namespace":"shared","ips":["10.9.0.5/24"],"mac":"02:00:00:00:00:01"}]`))
	if refusal != "" {
		t.Fatal(refusal)
	}
	if file := desired[1].Delegate.File; file.PlainIPs || !file.PlainMAC {
		t.Errorf("a pod of another namespace may choose: addresses %v, MAC %v; want the granted MAC alone", file.PlainIPs, file.PlainMAC)
	}
}

// The configuration is complete: nodes add nothing to it.
func TestPluginConfiguration_PodRequests_Included(t *testing.T) {
	rows := world(configured("net", bridgeConfig), grant("g", func(g *multinet.Grant) {
		g.Namespaces, g.Requests = []string{"a"}, []string{"mac", "cni-args"}
	}))
	selections := `[{"name":"net","mac":"02:00:00:00:00:01","ips":["10.9.0.5/24"],"cni-args":{"x":18446744073709551615}}]`
	desired, refusal := decide(t, "", rows, ofNobody(selections))
	if refusal != "" || len(desired) != 2 || desired[1].Delegate == nil {
		t.Fatalf("%v, refused with %q", short(desired), refusal)
	}
	w := desired[1]
	if got := fmt.Sprint(w.Interface, w.Kind, w.Definition, w.Outside.Path(), w.Outside.UID); got != fmt.Sprint(
		"net1",
		"delegate",
		"a/net",
		"NetworkAttachmentDefinition/a/net",
		"uid-nad-a-net",
	) {
		t.Errorf("the attachment is %s", got)
	}
	var got, want any
	if err := json.Unmarshal(w.Delegate.Conf, &got); err != nil {
		t.Fatal(err)
	}
	text := `{"cniVersion":"1.0.0","name":"net","plugins":[{"cniVersion":"1.0.0","type":"bridge","capabilities":{"mac":true,"ips":true},"ipam":{"type":"host-local"},
		"runtimeConfig":{"mac":"02:00:00:00:00:01","ips":["10.9.0.5/24"]},"args":{"cni":{"x":18446744073709551615}}}]}`
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || !strings.Contains(string(w.Delegate.Conf), "18446744073709551615") {
		t.Errorf("%s\n(-want +got):\n%s", w.Delegate.Conf, diff)
	}
}

// NPWG 7.5: the settings of a pod in Kubernetes itself MUST reach the default network only.
func TestPluginConfiguration_HostPorts_NotIncluded(t *testing.T) {
	rows := world(
		configured("net", `{"cniVersion":"1.0.0","type":"bridge","capabilities":{"portMappings":true,"bandwidth":true,"dns":true}}`),
		grant("g", ofNamespace("a")),
	)
	desired, refusal := decide(t, "", rows, ofNobody("net"), func(p *store.Pod) {
		p.HostPorts = []store.HostPort{{Protocol: "TCP", HostPort: 80, Port: 80}}
	})
	if refusal != "" || len(desired) != 2 || strings.Contains(string(desired[1].Delegate.Conf), "runtimeConfig") {
		t.Errorf("%+v, refused with %q", desired, refusal)
	}
}

// fileOf returns the file of the nodes with the configuration of an interface, in JSON.
func fileOf(t *testing.T, w pod.Desired) string {
	t.Helper()
	text, err := json.Marshal(w.Delegate.File)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// NPWG 1.1: with no usable key in spec, the network MUST be the known one that the object's
// name refers to. A delegating implementation MUST look for a configuration of that name.
func TestDefinition_NoConfiguration_NodeFileNamed(t *testing.T) {
	named := func(requests ...string) *multinet.Grant {
		return grant("g", func(g *multinet.Grant) { g.Networks, g.Requests = []string{"a/lab"}, requests })
	}
	for _, tc := range []struct {
		name, selections string
		grants           []any
		want, text       string
	}{
		{"a grant that names it", "lab", []any{named()}, `{"name":"lab","plugins":["bridge"],"ipam":["host-local"],"runtime":{}}`, ""},
		{"one of two grants names it", "lab", []any{grant("f", ofNamespace("a")), named()}, `{"name":"lab","plugins":["bridge"],"ipam":["host-local"],"runtime":{}}`, ""},
		{
			"the pod's requests", `[{"name":"lab","mac":"02:00:00:00:00:01","ips":["10.9.0.5/24"],"cni-args":{"x":1},"bandwidth":{"ingressRate":8}}]`,
			[]any{named("mac", "cni-args")},
			`{"name":"lab","plugins":["bridge"],"ipam":["host-local"],"args":{"x":1},"runtime":{"ips":["10.9.0.5/24"],"mac":"02:00:00:00:00:01","bandwidth":{"ingressRate":8}},"plainIPs":true,"plainMAC":true}`, "",
		},
		{"a request that is not granted", `[{"name":"lab","mac":"02:00:00:00:00:01"}]`, []any{named()}, "", `does not permit the request "mac"`},
		{"no grant", "lab", nil, "", "neither the annotation alioth.dev/network nor spec.config"},
		{"a grant to the namespace alone, whose authors choose names", "lab", []any{grant("g", ofNamespace("a"))}, "", "does not name it in spec.networks"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			desired, refusal := decide(t, "", world(append(tc.grants, configured("lab", ""))...), ofNobody(tc.selections))
			if tc.want == "" {
				if !strings.HasPrefix(refusal, v1alpha1.DelegationNotGrantedReason) || !strings.Contains(refusal, tc.text) {
					t.Errorf("%v, refused with %q", short(desired), refusal)
				}
				return
			}
			if refusal != "" || len(desired) != 2 || fileOf(t, desired[1]) != tc.want {
				t.Errorf("%+v, refused with %q", desired, refusal)
			}
		})
	}
	rows := world(named(), configured("lab", ""))
	if desired, refusal := decide(t, "", rows, selecting("lab")); !strings.Contains(refusal, "pods of tenants") {
		t.Errorf("a tenant's pod gets %v, %q", short(desired), refusal)
	}
}

func TestPlugins_DelegationOff_Refused(t *testing.T) {
	static := danmNet("static", func(n *multinet.Network) { n.Type = "bridge" })
	p := operatortest.Pod("ns:a", "a", "p", "", "")
	rows := world(static, configured("net", bridgeConfig), configured("lab", ""), grant("g", ofNamespace("a")), p)
	source := interfaces.Source(interfaces.Config{
		DefaultVPC: "default", Annotations: []string{interfaces.AnnotationDANM, interfaces.AnnotationNPWG}, Kinds: []string{"macvlan"}, Limit: 4,
	})
	operatortest.New(t, rows...).View(func(tx store.ReadTx) {
		for _, change := range []func(*store.Pod){
			func(p *store.Pod) { p.Selections = "net" }, func(p *store.Pod) { p.Selections = "lab" },
			func(p *store.Pod) { p.Interfaces = `[{"vpc":"default"},{"network":"static"}]` },
		} {
			asking := *p
			change(&asking)
			if desired, refusal := source(tx, &asking); refusal == nil || refusal.Reason != v1alpha1.NetworkTypeReason {
				t.Errorf("%v, %+v", short(desired), refusal)
			}
		}
	})
}

// An annotation that is off belongs to another program.
func TestAnnotation_TurnedOff_Ignored(t *testing.T) {
	p := operatortest.Pod("blue", "a", "p", "", "")
	p.Selections, p.Interfaces = "none", "broken"
	source := interfaces.Source(interfaces.Config{DefaultVPC: "default", Limit: 4})
	operatortest.New(t, world(p)...).View(func(tx store.ReadTx) {
		if desired, refusal := source(tx, p); refusal != nil || len(desired) != 1 {
			t.Errorf("%v, %+v", short(desired), refusal)
		}
	})
}
