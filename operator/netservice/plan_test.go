// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netservice

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

var rules = Rules{DefaultVPC: "default", VPCTypes: []string{"flannel"}}

// selectingIn returns a headless Service of namespace blue that selects app=web in networks.
func selectingIn(networks ...store.NetworkName) *store.Service {
	return &store.Service{
		Meta: operatortest.Meta("uid-svc", 0), Namespace: "blue", Name: "web", Selectorless: true,
		Endpoints: &store.EndpointSelection{Selector: map[string]string{"app": "web"}, Networks: networks},
	}
}

func named(kind, name string) store.NetworkName { return store.NetworkName{Kind: kind, Name: name} }

// pod is one of namespace blue with the label app=web.
func pod(name string) *store.Pod {
	row := operatortest.Pod("blue", "blue", name, "", "")
	row.Labels = map[string]string{"app": "web", "name": name}
	row.Reason = v1alpha1.AttachedReason
	return row
}

func outside(kind, namespace, name string) *multinet.Network {
	return &multinet.Network{
		Meta: operatortest.Meta("uid-"+kind+"-"+name, 0), Ref: multinet.Ref{Group: "danm.k8s.io", Kind: kind, Namespace: namespace, Name: name},
		Type: "macvlan", HostDevice: "ens4", Ready: true,
	}
}

// attached returns the claim of a pod's interface in a network, with its addresses.
func attached(p *store.Pod, iface string, network store.NetworkRef, ips ...string) []any {
	rows := []any{&multinet.Claim{
		Meta: operatortest.Meta("uid-claim-"+p.Name+iface, 0), Namespace: p.Namespace, Name: p.Name + "." + iface,
		PodName: p.Name, PodUID: p.UID, Node: p.Node, Interface: iface, Driver: "macvlan", Network: network,
	}}
	for _, ip := range ips {
		row := operatortest.Address("", "", ip, p)
		row.Network, row.Attachment = network, iface
		row.Name = v1alpha1.AddressName(network.Domain(), row.IP)
		rows = append(rows, row)
	}
	return rows
}

func base(more ...any) []any {
	return append([]any{
		&store.Namespace{Meta: operatortest.Meta("uid-blue", 0), Name: "blue", Tenant: "blue"},
		&store.Namespace{Meta: operatortest.Meta("uid-tools", 0), Name: "tools", Tenant: "blue"},
		&store.Namespace{Meta: operatortest.Meta("uid-red", 0), Name: "red", Tenant: "red"},
		operatortest.VPC("blue-vpc", 2, []string{"blue"}, "10.0.0.0/16"), operatortest.VPC("red-vpc", 3, []string{"red"}, "10.0.0.0/16"),
		operatortest.Network("blue", "blue", "default", "blue-vpc", 1), operatortest.Network("blue", "tools", "theirs", "red-vpc", 1),
	}, more...)
}

// shown lists domain and address of each member, sorted.
func shown(d decision) (all []string) {
	for domain, list := range d.members {
		for _, one := range list {
			all = append(all, domain+" "+one.pod.Name+" "+one.ip.String())
		}
	}
	slices.Sort(all)
	return all
}

func reasons(d decision) (all []string) {
	for _, refusal := range d.refusals {
		if refusal != nil {
			all = append(all, refusal.Reason+": "+refusal.Message)
		}
	}
	return all
}

func TestEndpoints_Pods_AddressesHeldInNetworks(t *testing.T) {
	lan, rack, closed := outside("DanmNet", "blue", "lan"), outside("ClusterNetwork", "", "rack"), outside("ClusterNetwork", "", "closed")
	closed.AllowedNamespaces = []string{"red"}
	management := outside("DanmNet", "blue", "management")
	management.Type = "flannel"
	a, b := pod("a"), pod("b")
	inLAN := slices.Concat([]any{lan, a}, attached(a, "lan1", lan.Reference(), "192.168.0.2", "fd00::2"))
	inVPC := func(p *store.Pod, ip string) *store.Address { return operatortest.Address("blue-vpc", "net1", ip, p) }
	nad := func(namespace, name string, target multinet.Target) *multinet.Definition {
		return &multinet.Definition{Meta: operatortest.Meta("uid-nad-"+name, 0), Namespace: namespace, Name: name, Target: target}
	}
	plugin := nad("blue", "plugin", multinet.Target{})
	const lanDomain = "uid-DanmNet-lan.net"
	for name, c := range map[string]struct {
		networks []store.NetworkName
		rows     []any
		want     []string
		refusal  string
	}{
		"both families of an interface": {
			[]store.NetworkName{named("DanmNet", "lan")}, inLAN, []string{lanDomain + " a 192.168.0.2", lanDomain + " a fd00::2"}, "",
		},
		"several networks, and one address once": {
			[]store.NetworkName{named("DanmNet", "lan"), named("NetworkAttachmentDefinition", "alias"), named("ClusterNetwork", "rack")},
			slices.Concat(inLAN, []any{rack, nad("blue", "alias", multinet.Target{Kind: "DanmNet", Name: "lan"})}, attached(a, "net2", rack.Reference(), "192.168.0.2")),
			[]string{"uid-ClusterNetwork-rack.net a 192.168.0.2", lanDomain + " a 192.168.0.2", lanDomain + " a fd00::2"},
			"",
		},
		"the VPC of a Network": {
			[]store.NetworkName{named("Network", "default")},
			append(inLAN, inVPC(a, "10.0.1.2"), b, inVPC(b, "10.0.1.3")),
			[]string{"blue-vpc a 10.0.1.2", "blue-vpc b 10.0.1.3"},
			"",
		},
		"a VPC": {[]store.NetworkName{named("VPC", "blue-vpc")}, []any{a, inVPC(a, "10.0.1.2")}, []string{"blue-vpc a 10.0.1.2"}, ""},
		"a network that stands for the pod's VPC": {
			[]store.NetworkName{named("DanmNet", "management")}, append(inLAN, management, inVPC(a, "10.0.1.2")), []string{"blue-vpc a 10.0.1.2"}, "",
		},
		"a definition of the tenant's other namespace, for a Subnet": {
			[]store.NetworkName{{Kind: "NetworkAttachmentDefinition", Namespace: "tools", Name: "sub"}},
			[]any{
				nad("tools", "sub", multinet.Target{Kind: "VPC", Name: "blue-vpc", Subnet: "one"}), operatortest.Subnet("net1", "blue-vpc", "one", 0, "10.0.1.0/24"),
				a, inVPC(a, "10.0.1.2"), b, operatortest.Address("blue-vpc", "net2", "10.0.2.2", b),
			},
			[]string{"blue-vpc a 10.0.1.2"},
			"",
		},
		"another pod's label": {[]store.NetworkName{named("DanmNet", "lan")}, append(inLAN, b), []string{lanDomain + " a 192.168.0.2", lanDomain + " a fd00::2"}, ""},
		"an interface without an address": {
			[]store.NetworkName{named("DanmNet", "lan")},
			slices.Concat(inLAN, []any{b}, attached(b, "lan1", lan.Reference())),
			[]string{lanDomain + " a 192.168.0.2", lanDomain + " a fd00::2"},
			"InterfaceWithoutAddress: interfaces without an address of Alioth are no endpoints: lan1 of pod b in DanmNet blue/lan",
		},
		"a delegate's own address": {
			[]store.NetworkName{named("NetworkAttachmentDefinition", "plugin")}, append([]any{plugin, a}, func() any {
				claim := attached(a, "net1", plugin.Reference())[0].(*multinet.Claim)
				claim.Driver = "delegate"
				return claim
			}()), nil, "known from the node alone",
		},
		"an unknown network": {
			[]store.NetworkName{named("DanmNet", "nowhere"), named("DanmNet", "lan")},
			inLAN,
			[]string{lanDomain + " a 192.168.0.2", lanDomain + " a fd00::2"},
			"NetworkNotFound: DanmNet blue/nowhere does not exist: create it",
		},
		"an unknown Network":                  {[]store.NetworkName{named("Network", "nowhere")}, inLAN, nil, `NetworkNotFound: no Network "nowhere"`},
		"an unknown VPC":                      {[]store.NetworkName{named("VPC", "nowhere")}, inLAN, nil, `VPC "nowhere", which does not exist`},
		"an unknown definition":               {[]store.NetworkName{named("NetworkAttachmentDefinition", "nowhere")}, inLAN, nil, "NetworkAttachmentDefinition blue/nowhere does not exist"},
		"an unknown Subnet":                   {[]store.NetworkName{named("NetworkAttachmentDefinition", "sub")}, []any{nad("blue", "sub", multinet.Target{Kind: "VPC", Subnet: "none"})}, nil, `names the Subnet "none"`},
		"another tenant's VPC":                {[]store.NetworkName{named("VPC", "red-vpc")}, []any{a, operatortest.Address("red-vpc", "net1", "10.0.1.2", a)}, nil, `TenantNotAllowed: VPC "red-vpc" does not allow tenant "blue"`},
		"a Network with another tenant's VPC": {[]store.NetworkName{named("Network", "theirs")}, inLAN, nil, `VPC "red-vpc" does not allow tenant "blue"`},
		"a ClusterNetwork for others":         {[]store.NetworkName{named("ClusterNetwork", "closed")}, slices.Concat([]any{closed, a}, attached(a, "net1", closed.Reference(), "192.168.0.2")), nil, `ClusterNetwork closed does not allow namespace "blue"`},
		"a definition of another tenant":      {[]store.NetworkName{{Kind: "NetworkAttachmentDefinition", Namespace: "red", Name: "lan"}}, inLAN, nil, `namespace "red" is not of the Service's tenant`},
		"a lent definition of another's VPC": {[]store.NetworkName{{Kind: "NetworkAttachmentDefinition", Namespace: "red", Name: "lan"}}, []any{
			nad("red", "lan", multinet.Target{Kind: "VPC", Name: "red-vpc"}),
			&multinet.Grant{Meta: operatortest.Meta("uid-grant", 0), Name: "g", Namespaces: []string{"blue"}, FromNamespaces: []string{"red"}},
		}, nil, `TenantNotAllowed: VPC "red-vpc" does not allow tenant "blue"`},
		"a definition for another namespace":     {[]store.NetworkName{{Kind: "NetworkAttachmentDefinition", Namespace: "tools", Name: "lan"}}, []any{nad("tools", "lan", multinet.Target{Kind: "DanmNet", Name: "lan"})}, nil, "pods of other namespaces can't use"},
		"a definition that can't be used":        {[]store.NetworkName{named("NetworkAttachmentDefinition", "lan")}, []any{&multinet.Definition{Meta: operatortest.Meta("uid-d", 0), Namespace: "blue", Name: "lan", Problem: "no JSON"}}, nil, "EndpointsInvalid: NetworkAttachmentDefinition blue/lan can't be used: no JSON"},
		"the namesake of another's namespace":    {[]store.NetworkName{named("DanmNet", "lan")}, []any{outside("DanmNet", "red", "lan")}, nil, "DanmNet blue/lan does not exist"},
		"an address in a former life of the net": {[]store.NetworkName{named("DanmNet", "lan")}, slices.Concat([]any{lan, a}, attached(a, "lan1", store.NetworkRef{UID: "uid-former", Kind: "DanmNet", Namespace: "blue", Name: "lan"}, "192.168.0.2")), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			operatortest.New(t, base(c.rows...)...).View(func(tx store.ReadTx) {
				d := decide(tx, selectingIn(c.networks...), rules)
				if got := shown(d); !slices.Equal(got, c.want) {
					t.Errorf("members\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
				}
				if got := reasons(d); (len(got) == 0) != (c.refusal == "") || c.refusal != "" && !strings.Contains(got[0], c.refusal) || len(got) > 1 {
					t.Errorf("refusals %q, want %q", got, c.refusal)
				}
			})
		})
	}
}

// Each change takes the one endpoint away that there is.
func TestEndpoints_UndecidedByOperator_None(t *testing.T) {
	for name, change := range map[string]func(p *store.Pod, claim *multinet.Claim, address *store.Address, service *store.Service){
		"a pod that has ended": func(p *store.Pod, _ *multinet.Claim, _ *store.Address, _ *store.Service) { p.Terminal = true },
		"a pod without the label": func(p *store.Pod, _ *multinet.Claim, _ *store.Address, _ *store.Service) {
			p.Labels = map[string]string{"app": "db"}
		},
		"a pod of another namespace":          func(p *store.Pod, _ *multinet.Claim, _ *store.Address, _ *store.Service) { p.Namespace = "tools" },
		"a claim for another pod":             func(_ *store.Pod, c *multinet.Claim, _ *store.Address, _ *store.Service) { c.PodUID = "uid-other" },
		"a claim for another node":            func(_ *store.Pod, c *multinet.Claim, _ *store.Address, _ *store.Service) { c.Node = "node-2" },
		"an interface that the node released": func(_ *store.Pod, c *multinet.Claim, _ *store.Address, _ *store.Service) { c.Released = true },
		"another interface's address":         func(_ *store.Pod, _ *multinet.Claim, a *store.Address, _ *store.Service) { a.Attachment = "eth7" },
		"another pod's address":               func(_ *store.Pod, _ *multinet.Claim, a *store.Address, _ *store.Service) { a.Holder.UID = "uid-other" },
		"an address on another node":          func(_ *store.Pod, _ *multinet.Claim, a *store.Address, _ *store.Service) { a.Node = "node-2" },
		"a Service's address": func(_ *store.Pod, _ *multinet.Claim, a *store.Address, _ *store.Service) {
			a.Holder.Kind = store.HolderService
		},
		"an address that is not claimed yet": func(p *store.Pod, _ *multinet.Claim, a *store.Address, _ *store.Service) {
			p.Reason, a.UID = "", ""
		},
		"a Service that is going":   func(_ *store.Pod, _ *multinet.Claim, _ *store.Address, s *store.Service) { s.Deleting = true },
		"a Service with a selector": func(_ *store.Pod, _ *multinet.Claim, _ *store.Address, s *store.Service) { s.Selectorless = false },
		"a Service that can't be read": func(_ *store.Pod, _ *multinet.Claim, _ *store.Address, s *store.Service) {
			s.Endpoints = &store.EndpointSelection{Problem: "x"}
		},
		"a Service without annotations": func(_ *store.Pod, _ *multinet.Claim, _ *store.Address, s *store.Service) { s.Endpoints = nil },
	} {
		t.Run(name, func(t *testing.T) {
			for _, changed := range []bool{false, true} {
				lan, a, service := outside("DanmNet", "blue", "lan"), pod("a"), selectingIn(named("DanmNet", "lan"))
				rows := attached(a, "lan1", lan.Reference(), "192.168.0.2")
				if changed {
					change(a, rows[0].(*multinet.Claim), rows[1].(*store.Address), service)
				}
				operatortest.New(t, base(append(rows, lan, a)...)...).View(func(tx store.ReadTx) {
					if got := shown(decide(tx, service, rules)); (len(got) == 0) != changed {
						t.Errorf("changed %v: members %v", changed, got)
					}
				})
			}
		})
	}
}

func TestEndpoints_ClaimOfRunningPodLost_Kept(t *testing.T) {
	lan, a := outside("DanmNet", "blue", "lan"), pod("a")
	rows := attached(a, "lan1", lan.Reference(), "192.168.0.2")
	address := rows[1].(*store.Address)
	for kept, want := range map[bool]int{true: 1, false: 0} {
		// Kept until it is claimed again, or claimed and not yet created.
		address.UID, address.Kept = "", kept
		operatortest.New(t, base(append(rows, lan, a)...)...).View(func(tx store.ReadTx) {
			if got := shown(decide(tx, selectingIn(named("DanmNet", "lan")), rules)); len(got) != want {
				t.Errorf("kept %v: members %v", kept, got)
			}
		})
	}
}

func TestServiceCondition_NoEndpoints_CauseGiven(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*store.Service)
		want   string
	}{
		"annotations that can't be read": {func(s *store.Service) { s.Endpoints = &store.EndpointSelection{Problem: "no JSON"} }, "EndpointsInvalid: the Service has no endpoints: no JSON"},
		"a selector in the spec":         {func(s *store.Service) { s.Selectorless = false }, "SelectorInSpec: "},
	} {
		t.Run(name, func(t *testing.T) {
			lan, a, service := outside("DanmNet", "blue", "lan"), pod("a"), selectingIn(named("DanmNet", "lan"))
			c.change(service)
			operatortest.New(t, base(append(attached(a, "lan1", lan.Reference(), "192.168.0.2"), lan, a)...)...).View(func(tx store.ReadTx) {
				if got := reasons(decide(tx, service, rules)); len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
					t.Errorf("refusals %q, want %q", got, c.want)
				}
			})
		})
	}
}

// TestClusterIP_VPCAndNetworks_ServedOnlyThere: in networks outside of every VPC the nodes serve
// it, in other VPCs nobody does.
func TestClusterIP_VPCAndNetworks_ServedOnlyThere(t *testing.T) {
	lan, a := outside("DanmNet", "blue", "lan"), pod("a")
	rows := base(append(attached(a, "lan1", lan.Reference(), "192.168.0.2"), lan, a, operatortest.VPC("second", 4, []string{"blue"}, "10.9.0.0/16"),
		operatortest.Address("blue-vpc", "net1", "10.0.1.2", a), operatortest.Address("second", "net2", "10.9.1.2", a))...)
	for network, served := range map[store.NetworkName]bool{
		named("DanmNet", "lan"): true, named("VPC", "blue-vpc"): true, named("VPC", "second"): false,
	} {
		service := selectingIn(network)
		service.ClusterIPs = operatortest.Addrs("10.96.0.1")
		operatortest.New(t, rows...).View(func(tx store.ReadTx) {
			d := decide(tx, service, rules)
			got := reasons(d)
			if len(shown(d)) != 1 || served != (len(got) == 0) || !served && !strings.HasPrefix(got[0], "ClusterIPNotServed: ") {
				t.Errorf("%s: members %v, refusals %q", network, shown(d), got)
			}
		})
	}
}

// TestClusterIPOutside_NoEndpoints_Exists: nodes refuse connections by it.
func TestClusterIPOutside_NoEndpoints_Exists(t *testing.T) {
	lan := outside("DanmNet", "blue", "lan")
	operatortest.New(t, base(lan)...).View(func(tx store.ReadTx) {
		for name, c := range map[string]struct {
			ips  []string
			in   store.NetworkName
			want []string
		}{
			"a ClusterIP":           {[]string{"10.96.0.1"}, named("DanmNet", "lan"), []string{lan.Domain()}},
			"a headless Service":    {nil, named("DanmNet", "lan"), nil},
			"a ClusterIP in a VPC":  {[]string{"10.96.0.1"}, named("VPC", "blue-vpc"), nil},
			"a network that is not": {[]string{"10.96.0.1"}, named("DanmNet", "wan"), nil},
		} {
			service := selectingIn(c.in)
			service.ClusterIPs = operatortest.Addrs(c.ips...)
			if got := slices.Sorted(maps.Keys(decide(tx, service, rules).members)); !slices.Equal(got, c.want) {
				t.Errorf("%s: members in %v, want %v", name, got, c.want)
			}
		}
	})
}

// A change of a pod concerns the Services that select it, among thousands.
func TestPodRequests_Change_OnlySelectingServices(t *testing.T) {
	var rows []any
	for i := range 5000 {
		service := selectingIn(named("DanmNet", "lan"))
		service.Meta, service.Name = operatortest.Meta(fmt.Sprintf("uid-%d", i), 0), fmt.Sprintf("web-%d", i)
		service.Endpoints.Selector = map[string]string{"name": fmt.Sprintf("pod-%d", i), "app": "web"}
		if i%2 == 1 {
			service.Endpoints.Selector = map[string]string{"only": fmt.Sprintf("pod-%d", i)}
		}
		rows = append(rows, service)
	}
	s := operatortest.New(t, base(rows...)...)
	fits, other := pod("pod-4"), pod("pod-5")
	was := *fits
	was.Labels = map[string]string{"only": "pod-7"}
	elsewhere := *fits
	elsewhere.Namespace = "tools"
	for name, c := range map[string]struct {
		old, now *store.Pod
		want     []string
	}{
		"a new pod":                     {nil, fits, []string{"web-4"}},
		"a pod that has fitted another": {&was, fits, []string{"web-4", "web-7"}},
		"a pod that is gone":            {&was, nil, []string{"web-7"}},
		"a pod with half of the labels": {nil, other, nil},
		"a pod of another namespace":    {nil, &elsewhere, nil},
	} {
		s.View(func(tx store.ReadTx) {
			var got []string
			for _, request := range (&Reconciler{}).ofPod(tx, c.old, c.now) {
				got = append(got, request.Name)
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		})
	}
}
