// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package interfaces_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/operator/pod"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// definition returns a NetworkAttachmentDefinition that stands for a network of Alioth.
func definition(namespace, name string, target annotations.Target) *multinet.Definition {
	return &multinet.Definition{Meta: operatortest.Meta("uid-nad-"+namespace+"-"+name, 0), Namespace: namespace, Name: name, Target: multinet.Target(target)}
}

func toVPC(vpc, subnet string) annotations.Target {
	return annotations.Target{Kind: annotations.TargetVPC, Name: vpc, Subnet: subnet}
}

func toDanmNet(name string) annotations.Target {
	return annotations.Target{Kind: annotations.TargetDanmNet, Name: name}
}

func selecting(text string) func(*store.Pod) {
	return func(p *store.Pod) { p.Selections = text }
}

func selectionWorld() []any {
	routed := danmNet("routed", withRoute("0.0.0.0/0", "10.20.0.1"), withRoute("::/0", "fd20::1"))
	plain := danmNet("plain", func(n *multinet.Network) { n.V4, n.V6 = multinet.Range{}, multinet.Range{} })
	broken := definition("a", "broken", annotations.Target{})
	broken.Problem = "it has neither"
	leaving := definition("a", "leaving", toVPC("v", ""))
	leaving.Deleting = true
	plugin := definition("a", "plugin", annotations.Target{})
	plugin.Config = `{"type":"bridge"}`
	return world(
		danmNet("internal"),
		routed,
		plain,
		broken,
		leaving,
		plugin,
		operatortest.Network("blue", "a", "default", "v", 0),
		&store.Namespace{Meta: operatortest.Meta("uid-ns-other", 0), Name: "other", Tenant: "blue"},
		&store.Namespace{Meta: operatortest.Meta("uid-ns-red", 0), Name: "red", Tenant: "red"},
		definition("a", "vpc", toVPC("v", "net1")),
		definition("a", "kuryr", annotations.Target{Kind: annotations.TargetVPC, Subnet: "s1"}),
		definition("a", "nowhere", annotations.Target{Kind: annotations.TargetVPC, Subnet: "s9"}),
		definition(
			"a",
			"stolen",
			toVPC("foreign", ""),
		),
		definition("a", "internal", toDanmNet("internal")),
		definition("a", "routed", toDanmNet("routed")),
		definition("a", "plain", toDanmNet("plain")),
		definition("other", "vpc", toVPC("v", "")),
		definition("other", "theirs", toDanmNet("internal")),
		definition("red", "vpc", toVPC("v", "")),
	)
}

// NPWG 1.3, section 4.1: the interfaces come behind the default network's, in their order.
func TestSelectedDefinitions_DefaultNetwork_FollowInOrder(t *testing.T) {
	for _, tc := range []struct {
		name, selections, list string
		want                   []string
	}{
		{"a list of names", "vpc,a/internal@ext0", "", []string{"eth0 veth v [] IPv4 and IPv6", "net1 veth v [] IPv4 and IPv6", "ext0 macvlan DanmNet/a/internal [] IPv4 and IPv6"}},
		{"the alias of Kuryr", "kuryr", "", []string{"eth0 veth v [] IPv4 and IPv6", "net1 veth v [] IPv4 and IPv6"}},
		{"another namespace of the tenant", "other/vpc", "", []string{"eth0 veth v [] IPv4 and IPv6", "net1 veth v [] IPv4 and IPv6"}},
		{"one definition twice", "vpc,vpc", "", []string{"eth0 veth v [] IPv4 and IPv6", "net1 veth v [] IPv4 and IPv6", "net2 veth v [] IPv4 and IPv6"}},
		{"addresses", `[{"name":"vpc","ips":["10.0.1.9"]},{"name":"internal","ips":["10.20.0.200/24"]}]`, "", []string{
			"eth0 veth v [] IPv4 and IPv6", "net1 veth v [10.0.1.9] IPv4 and IPv6", "net2 macvlan DanmNet/a/internal [10.20.0.200] IPv6",
		}},
		{"a network without ranges", "plain", "", []string{"eth0 veth v [] IPv4 and IPv6", "net1 macvlan DanmNet/a/plain [] IPv4 and IPv6"}},
		{"behind the list of DANM", "vpc", `[{"network":"plain","ip":"dynamic"},{"vpc":"v"}]`, []string{
			"eth0 macvlan DanmNet/a/plain [] IPv4", "eth1 veth v [] IPv4 and IPv6", "net1 veth v [] IPv4 and IPv6",
		}},
		{"a blank annotation", " ", "", []string{"eth0 veth v [] IPv4 and IPv6"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			desired, refusal := decide(t, tc.list, selectionWorld(), selecting(tc.selections))
			if diff := cmp.Diff(tc.want, short(desired)); refusal != "" || diff != "" {
				t.Errorf("refused with %q (-want +got):\n%s", refusal, diff)
			}
		})
	}
}

func TestSelection_NotAllowed_NothingGiven(t *testing.T) {
	for _, tc := range []struct{ name, selections, reason, text string }{
		{"a malformed list", "[{", v1alpha1.InterfacesInvalidReason, "k8s.v1.cni.cncf.io/networks"},
		{"a definition that does not exist", "none", v1alpha1.NetworkNotFoundReason, "a/none does not exist"},
		{"one of another tenant", "red/vpc", v1alpha1.TenantNotAllowedReason, `namespace "red" is not of the pod's tenant`},
		{"one in a namespace that does not exist", "nowhere/vpc", v1alpha1.TenantNotAllowedReason, `namespace "nowhere"`},
		{"a VPC of another tenant", "stolen", v1alpha1.NetworkNotReadyReason, `does not allow tenant "blue"`},
		{"a DanmNet of another namespace", "other/theirs", v1alpha1.TenantNotAllowedReason, "pods of other namespaces"},
		{"a broken one", "broken", v1alpha1.NetworkNotReadyReason, "it has neither"},
		{"one that is being deleted", "leaving", v1alpha1.NetworkNotReadyReason, "being deleted"},
		{"one for a plugin", "plugin", v1alpha1.DelegationNotGrantedReason, "pods of tenants can't use"},
		{"a Subnet that does not exist", "nowhere", v1alpha1.NetworkNotFoundReason, `the Subnet "s9"`},
		{"an IPAM claim", `[{"name":"vpc","ipam-claim-reference":"c"}]`, v1alpha1.InterfacesInvalidReason, `"ipam-claim-reference" is not supported: remove it`},
		{"a path", "../red/vpc", v1alpha1.InterfacesInvalidReason, "is no name of a NetworkAttachmentDefinition"},
		{"a namespace with a path", `[{"name":"vpc","namespace":"../red"}]`, v1alpha1.InterfacesInvalidReason, "is no name of a namespace"},
		{"two elements with the default route", `[{"name":"vpc","default-route":[]},{"name":"vpc","default-route":[]}]`, v1alpha1.InterfacesInvalidReason, "elements 0 and 1 both have"},
		{"one that is missing behind a good one", "vpc,none", v1alpha1.NetworkNotFoundReason, "interface net2: NetworkAttachmentDefinition a/none"},
		{"two addresses of a family", `[{"name":"internal","ips":["10.20.0.200","10.20.0.201"]}]`, v1alpha1.InterfacesInvalidReason, "more than one address of a family"},
		{"more interfaces than a pod may have", "vpc,vpc,vpc,vpc", v1alpha1.InterfacesInvalidReason, "requests 5 interfaces"},
		{"a default route without a gateway", `[{"name":"plain","default-route":[]}]`, v1alpha1.InterfacesInvalidReason, "has no default route"},
		{"a gateway outside of the network", `[{"name":"internal","default-route":["10.21.0.1"]}]`, v1alpha1.InterfacesInvalidReason, "10.21.0.1 is not in a range"},
		{"a gateway that the VPC lacks", `[{"name":"vpc","default-route":["10.0.1.77"]}]`, v1alpha1.InterfacesInvalidReason, "10.0.1.77 is no gateway of a subnet"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			desired, refusal := decide(t, "", selectionWorld(), selecting(tc.selections))
			if !strings.HasPrefix(refusal, tc.reason+": ") || !strings.Contains(refusal, tc.text) {
				t.Errorf("%v, refused with %q, want %s with %q", short(desired), refusal, tc.reason, tc.text)
			}
		})
	}
	list := `[{"vpc":"v"},{"vpc":"v"}]`
	if desired, refusal := decide(t, list, selectionWorld(), selecting("vpc@eth1")); !strings.Contains(refusal, "the name eth1") {
		t.Errorf("two interfaces eth1: %v, %q", short(desired), refusal)
	}
}

// defaults lists which interfaces have default routes, and their gateways where the operator sets
// these.
func defaults(desired []pod.Desired) (texts []string) {
	for _, w := range desired {
		if w.InVPC() {
			texts = append(texts, fmt.Sprintf("%s %v", w.Interface, !w.NoDefaultRoute))
			continue
		}
		text := w.Interface
		for _, route := range w.Link.Routes {
			if route.Dst.Bits() == 0 {
				text += " " + route.Gateway.String()
			}
		}
		texts = append(texts, text)
	}
	return texts
}

func TestDefaultRoute_SelectionChosen_LeadsThroughIt(t *testing.T) {
	for _, tc := range []struct {
		name, selections string
		want             []string
	}{
		{"nothing chosen: that of the VPC stays", `routed`, []string{"eth0 true", "net1 fd20::1"}},
		{"the network's own", `[{"name":"routed","default-route":[]}]`, []string{"eth0 false", "net1 10.20.0.1 fd20::1"}},
		{"another gateway", `[{"name":"routed","default-route":["10.20.0.7"]}]`, []string{"eth0 false", "net1 10.20.0.7"}},
		{"a network twice", `[{"name":"routed","default-route":["10.20.0.7"]},{"name":"routed"}]`, []string{"eth0 false", "net1 10.20.0.7", "net2"}},
		{"in a VPC", `[{"name":"vpc"},{"name":"vpc","default-route":["10.0.1.1"]},{"name":"routed"}]`, []string{"eth0 false", "net1 false", "net2 true", "net3"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			desired, refusal := decide(t, "", selectionWorld(), selecting(tc.selections))
			if diff := cmp.Diff(tc.want, defaults(desired)); refusal != "" || diff != "" {
				t.Errorf("refused with %q (-want +got):\n%s", refusal, diff)
			}
		})
	}
}

// noticesOf returns the events of the interfaces, each as "<reason>: <message>".
func noticesOf(desired []pod.Desired) (texts []string) {
	for _, w := range desired {
		for _, n := range w.Notices {
			texts = append(texts, n.Reason+": "+n.Message)
		}
	}
	return texts
}

// expectNotices requires events with these parts, in their order, and no others.
func expectNotices(t *testing.T, desired []pod.Desired, reason string, parts ...string) {
	t.Helper()
	got := noticesOf(desired)
	actions := map[string]bool{}
	for _, w := range desired {
		for _, n := range w.Notices {
			if actions[n.Action] || n.Action == "" || len(n.Action) > 128 {
				t.Errorf("the action %q does not tell events apart", n.Action)
			}
			actions[n.Action] = true
		}
	}
	if len(got) != len(parts) {
		t.Fatalf("the events are %q, want %q", got, parts)
	}
	for i, part := range parts {
		if !strings.HasPrefix(got[i], reason+": ") || !strings.Contains(got[i], part) {
			t.Errorf("the event is %q, want %s with %q", got[i], reason, part)
		}
	}
}

// A manifest of Multus starts, whatever its selections request of plugins.
func TestSelection_OwnNetworkPluginRequests_IgnoredWithEvent(t *testing.T) {
	for key, value := range map[string]string{
		"mac": `"02:00:00:00:00:01"`, "infiniband-guid": `"c2:11:22:33:44:55:66:77"`, "cni-args": `{"a":1}`, "deviceID": `"0000:00:01.0"`,
		"portMappings": `[{"hostPort":80,"containerPort":80}]`, "bandwidth": `{"ingressRate":1000}`, "gateway": `["10.0.1.1"]`,
	} {
		for _, network := range []string{"vpc", "internal"} {
			t.Run(key+" of "+network, func(t *testing.T) {
				desired, refusal := decide(t, "", selectionWorld(), selecting(fmt.Sprintf(`[{"name":%q,%q:%s}]`, network, key, value)))
				if refusal != "" || len(desired) != 2 {
					t.Fatalf("%v, refused with %q", short(desired), refusal)
				}
				expectNotices(t, desired, v1alpha1.RequestIgnoredReason, fmt.Sprintf("interface net1: %q is ignored: ", key))
			})
		}
	}
}

// A default route of a definition's network gives way, of each family by itself.
func TestDefaultRoute_DefinitionNetworkGivesWay_Event(t *testing.T) {
	desired, refusal := decide(t, "", selectionWorld(), selecting("routed"))
	if refusal != "" {
		t.Fatal(refusal)
	}
	expectNotices(
		t,
		desired,
		v1alpha1.DefaultRouteKeptReason,
		`interface net1: the route to 0.0.0.0/0 by 10.20.0.1 of DanmNet a/routed is left out, because the pod has its default route by eth0 (VPC v): add "default-route": []`,
	)
	desired, refusal = decide(t, "", selectionWorld(), selecting(`[{"name":"routed","default-route":[]}]`))
	if refusal != "" || noticesOf(desired) != nil {
		t.Errorf("refused with %q, events %q", refusal, noticesOf(desired))
	}
	// Halves of all addresses do not count as default routes, and stay.
	halves := danmNet("halves", withRoute("0.0.0.0/1", "10.20.0.1"), withRoute("128.0.0.0/1", "10.20.0.1"))
	desired, refusal = decide(t, "", append(selectionWorld(), halves, definition("a", "halves", toDanmNet("halves"))), selecting("halves"))
	if refusal != "" || noticesOf(desired) != nil || len(desired[1].Link.Routes) != 2 {
		t.Errorf("refused with %q, events %q, routes %v", refusal, noticesOf(desired), desired)
	}
}

// A VPC of a definition has no default route of any family if the pod has one of them already,
// and neither has the next VPC: its node would take the first VPC without a mark.
func TestDefaultRoute_DefinitionVPCGivesWay_Event(t *testing.T) {
	both := operatortest.VPC("both", 4, []string{"blue"}, "10.5.0.0/16", "fd05::/48")
	four := danmNet("four", withRoute("0.0.0.0/0", "10.20.0.1"))
	rows := append(selectionWorld(), both, operatortest.Subnet("s5", "both", "net1", 0, "10.5.1.0/24", "fd05::/64"), four,
		definition("a", "both", toVPC("both", "")), definition("a", "four", toDanmNet("four")))
	for _, tc := range []struct {
		name, first, selections string
		want, events            []string
	}{
		{"both families", "four", "both", []string{"eth0 10.20.0.1", "net1 false"}, []string{
			`interface net1: VPC both gives the pod no default route of any family, because the pod has its route to 0.0.0.0/0 by eth0 (DanmNet a/four): add "default-route": []`,
		}},
		{"two VPCs", "four", "vpc,both", []string{"eth0 10.20.0.1", "net1 false", "net2 false"}, []string{"interface net1: VPC v gives", "interface net2: VPC both gives"}},
		{"no default route before it", "internal", "both,vpc", []string{"eth0", "net1 true", "net2 true"}, nil},
		{"chosen", "four", `[{"name":"both","default-route":[]}]`, []string{"eth0", "net1 true"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			desired, refusal := decide(t, "", rows, func(p *store.Pod) { p.DefaultSelection, p.Selections = tc.first, tc.selections })
			if diff := cmp.Diff(tc.want, defaults(desired)); refusal != "" || diff != "" {
				t.Fatalf("refused with %q (-want +got):\n%s", refusal, diff)
			}
			expectNotices(t, desired, v1alpha1.DefaultRouteKeptReason, tc.events...)
		})
	}
}

// v1.multus-cni.io/default-network: the definition takes the place of the pod's own default
// network, with the rights of a selection.
func TestDefaultNetworkAnnotation_Definition_BecomesDefault(t *testing.T) {
	choosing := func(text, selections string) func(*store.Pod) {
		return func(p *store.Pod) { p.DefaultSelection, p.Selections = text, selections }
	}
	for _, tc := range []struct {
		name, text, selections string
		want                   []string
	}{
		{"a VPC", "vpc", "", []string{"eth0 veth v [] IPv4 and IPv6"}},
		{"a subnet by an address", `[{"name":"vpc","ips":["10.0.1.9"]}]`, "", []string{"eth0 veth v [10.0.1.9] IPv4 and IPv6"}},
		{"a network outside, and a selection", "internal", "vpc", []string{"eth0 macvlan DanmNet/a/internal [] IPv4 and IPv6", "net1 veth v [] IPv4 and IPv6"}},
		{"another namespace of the tenant", "other/vpc", "", []string{"eth0 veth v [] IPv4 and IPv6"}},
		{"a blank annotation", " ", "", []string{"eth0 veth v [] IPv4 and IPv6"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			desired, refusal := decide(t, "", selectionWorld(), choosing(tc.text, tc.selections))
			if diff := cmp.Diff(tc.want, short(desired)); refusal != "" || diff != "" {
				t.Errorf("refused with %q (-want +got):\n%s", refusal, diff)
			}
			if tc.name != "a blank annotation" && (len(desired) == 0 || desired[0].Definition == "") {
				t.Errorf("the first interface has no definition: %+v", desired)
			}
		})
	}
	desired, refusal := decide(t, "", selectionWorld(), choosing("routed", "vpc"))
	if diff := cmp.Diff([]string{"eth0 10.20.0.1 fd20::1", "net1 false"}, defaults(desired)); refusal != "" || diff != "" {
		t.Errorf("a network with default routes: refused with %q (-want +got):\n%s", refusal, diff)
	}
	probed := func(p *store.Pod) { p.NetworkProbes = true }
	for _, tc := range []struct {
		name, text, list, reason, cause string
		change                          func(*store.Pod)
	}{
		{"one that does not exist", "none", "", v1alpha1.NetworkNotFoundReason, "annotation v1.multus-cni.io/default-network: NetworkAttachmentDefinition a/none", nil},
		{"one of another tenant", "red/vpc", "", v1alpha1.TenantNotAllowedReason, `namespace "red"`, nil},
		{"a VPC of another tenant", "stolen", "", v1alpha1.NetworkNotReadyReason, `does not allow tenant "blue"`, nil},
		{"one of plugins", "plugin", "", v1alpha1.DelegationNotGrantedReason, "pods of tenants", nil},
		{"two of them", "vpc,vpc", "", v1alpha1.InterfacesInvalidReason, "it has 2 elements", nil},
		{"a list beside it", "vpc", `[{"vpc":"v"}]`, v1alpha1.InterfacesInvalidReason, "both request its first interface", nil},
		{"a nic beside it", "vpc", "", v1alpha1.InterfacesInvalidReason, "arktos.futurewei.com/nic, which both request", func(p *store.Pod) { p.NIC = `{"name":"eth0"}` }},
		{"two default routes", `[{"name":"vpc","default-route":[]}]`, "", v1alpha1.InterfacesInvalidReason, `both have "default-route"`, selecting(`[{"name":"vpc","default-route":[]}]`)},
		{"probes", "internal", "", v1alpha1.ProbesOutsideVPCReason, "exec probes", probed},
		{"no address", "plain", "", v1alpha1.InterfacesInvalidReason, "the first interface of a pod needs an address", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			desired, refusal := decide(t, tc.list, selectionWorld(), append(nonNil(tc.change), func(p *store.Pod) { p.DefaultSelection = tc.text })...)
			if !strings.HasPrefix(refusal, tc.reason+": ") || !strings.Contains(refusal, tc.cause) {
				t.Errorf("%v, refused with %q, want %s with %q", short(desired), refusal, tc.reason, tc.cause)
			}
		})
	}
}
