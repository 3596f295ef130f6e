// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cnid/inspect/preflight"
)

// goodCluster returns a cluster without a finding, if its nodes are checked from inside.
func goodCluster() preflight.Cluster {
	return preflight.Cluster{
		Version: "v1.36.3", Namespace: "alioth-system", Release: "alioth",
		Served: []string{
			"admissionregistration.k8s.io/v1/validatingadmissionpolicies", "apiextensions.k8s.io/v1/customresourcedefinitions", "discovery.k8s.io/v1/endpointslices",
			"coordination.k8s.io/v1/leases", "flowcontrol.apiserver.k8s.io/v1/flowschemas", "networking.k8s.io/v1/servicecidrs",
		},
		Endpoints:    []netip.AddrPort{netip.MustParseAddrPort("192.0.2.10:6443")},
		Nodes:        []preflight.ClusterNode{goodClusterNode("node1", "192.0.2.1"), goodClusterNode("node2", "192.0.2.2")},
		ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
		Services:     []string{"default/kubernetes", "kube-system/kube-dns"},
		Namespaces:   []preflight.Namespace{{Name: "kube-system"}, {Name: "shop", Tenant: "shop", Enforce: "baseline"}},
		CRDs:         []preflight.CRD{{Name: "vpcs.alioth.dev", Release: "alioth-system/alioth"}, {Name: "danmnets.danm.k8s.io", Release: "alioth-system/alioth"}},
	}
}

func goodClusterNode(name string, ips ...string) preflight.ClusterNode {
	n := preflight.ClusterNode{
		Name: name, Kernel: "6.12.0", Runtime: "containerd://2.4.2", OS: "linux", Arch: "amd64", Ready: true, Labels: map[string]string{"kubernetes.io/os": "linux"},
		PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")},
	}
	for _, ip := range ips {
		n.Internal = append(n.Internal, netip.MustParseAddr(ip))
	}
	n.Addresses = n.Internal
	return n
}

type clusterCase struct {
	name    string
	values  string
	outside bool
	change  func(*preflight.Cluster)
	finding []finding
}

// one is the default VPC with a range of one family, as the nodes have.
const one = "defaultVPC: {cidrs: [10.200.0.0/16]}\n"

func clusterCases() []clusterCase {
	const blocking, warning, note = preflight.Blocking, preflight.Warning, preflight.Note
	set := func(namespace, name string, images ...string) func(*preflight.Cluster) {
		return func(c *preflight.Cluster) {
			c.DaemonSets = append(c.DaemonSets, preflight.DaemonSet{Namespace: namespace, Name: name, Images: images})
		}
	}
	node := func(change func(*preflight.ClusterNode)) func(*preflight.Cluster) {
		return func(c *preflight.Cluster) { change(&c.Nodes[1]) }
	}
	crd := func(crd preflight.CRD) func(*preflight.Cluster) {
		return func(c *preflight.Cluster) { c.CRDs = append(c.CRDs, crd) }
	}
	pods := func(ips ...string) func(*preflight.Cluster) {
		return func(c *preflight.Cluster) {
			for _, ip := range ips {
				c.PodIPs = append(c.PodIPs, netip.MustParseAddr(ip))
			}
		}
	}
	namespace := func(n preflight.Namespace) func(*preflight.Cluster) {
		return func(c *preflight.Cluster) { c.Namespaces = append(c.Namespaces, n) }
	}
	nothing := func(*preflight.Cluster) {}
	return []clusterCase{
		{"nothing", one, false, nothing, nil},
		{"from outside", one, true, nothing, []finding{{note, preflight.NodeInside, "--node-checks"}}},
		{
			"an old kernel from outside",
			one,
			true,
			node(func(n *preflight.ClusterNode) { n.Kernel = "5.4.0" }),
			[]finding{{note, preflight.NodeInside, ""}, {blocking, preflight.KernelVersion, "node2"}},
		},
		{"unread", one, false, func(c *preflight.Cluster) { c.Unread = []string{"read Pods: forbidden"} }, []finding{{warning, preflight.NotRead, "administrator"}}},
		{"an old Kubernetes", one, false, func(c *preflight.Cluster) { c.Version = "v1.32.9" }, []finding{{blocking, preflight.KubernetesVersion, "v1.32.9"}}},
		{"a vendor's Kubernetes", one, false, func(c *preflight.Cluster) { c.Version = "v1.34.1-eks-d96d92f" }, nil},
		{"an odd Kubernetes", one, false, func(c *preflight.Cluster) { c.Version = "main" }, []finding{{warning, preflight.KubernetesVersion, "main"}}},
		{"no flow control", one, false, func(c *preflight.Cluster) {
			c.Served = slices.DeleteFunc(c.Served, func(s string) bool { return strings.HasPrefix(s, "flowcontrol") })
		}, []finding{{blocking, preflight.APIFeatures, "flowControl.enabled to false"}}},
		{"no flow control wanted", one + "flowControl: {enabled: false}", false, func(c *preflight.Cluster) {
			c.Served = slices.DeleteFunc(c.Served, func(s string) bool { return strings.HasPrefix(s, "flowcontrol") })
		}, nil},
		{"no address", one + "apiServer: {host: ''}", false, nothing, []finding{{blocking, preflight.APIServerAddress, "for example 192.0.2.10 and 6443"}}},
		{
			"no address of an installation",
			one + "apiServer: {host: ''}",
			false,
			set("alioth-system", "alioth-cnid", "docker.io/alioth/alioth:dev"),
			[]finding{{note, preflight.Present, ""}},
		},
		{"a ClusterIP as address", one + "apiServer: {host: 10.96.0.1}", false, nothing, []finding{{blocking, preflight.APIServerAddress, "ClusterIP"}}},
		{
			"another name of cluster DNS",
			one,
			false,
			func(c *preflight.Cluster) { c.Services[1] = "kube-system/coredns" },
			[]finding{{warning, preflight.SharedServices, "kube-system/kube-dns"}},
		},
		{
			"a long name",
			one,
			false,
			node(func(n *preflight.ClusterNode) { n.Name = strings.Repeat("n", 250) }),
			[]finding{{blocking, preflight.NodeNames, "250 characters"}},
		},
		{"another architecture", one, false, node(func(n *preflight.ClusterNode) { n.Arch = "s390x" }), []finding{{blocking, preflight.NodePlatform, "s390x"}}},
		{"Windows that is not selected", one, false, node(func(n *preflight.ClusterNode) { n.OS, n.Labels = "windows", nil }), nil},
		{
			"Windows that is selected",
			one + "daemon: {nodeSelector: {kubernetes.io/os: null}}",
			false,
			node(func(n *preflight.ClusterNode) { n.OS, n.Labels = "windows", nil }),
			[]finding{{blocking, preflight.NodePlatform, "windows"}},
		},
		{
			"a label that no node has yet",
			one + "daemon: {nodeSelector: {example.com/network: alioth}}",
			false,
			node(func(n *preflight.ClusterNode) { n.Internal = nil }),
			[]finding{
				{note, preflight.NodePlatform, "selects no node now"}, {blocking, preflight.NodeAddresses, "node2"},
			},
		},
		{"not ready", one, false, node(func(n *preflight.ClusterNode) { n.Ready = false }), []finding{{warning, preflight.NodesReady, "node2"}}},
		{
			"an old runtime",
			one,
			false,
			node(func(n *preflight.ClusterNode) { n.Runtime = "containerd://1.6.20" }),
			[]finding{{warning, preflight.ContainerRuntime, "1.6.20"}},
		},
		{"no internal address", one, false, node(func(n *preflight.ClusterNode) { n.Internal = nil }), []finding{{blocking, preflight.NodeAddresses, "InternalIP"}}},
		{"other families", one, false, node(func(n *preflight.ClusterNode) { n.Internal = []netip.Addr{netip.MustParseAddr("2001:db8::2")} }), []finding{
			{blocking, preflight.NodeAddresses, "node node2: the Node has addresses of IPv6 alone"}, {note, preflight.NodeAddresses, "IPv4 and IPv6"},
		}},
		{
			"a family that nodes lack",
			"defaultVPC: {cidrs: [10.200.0.0/16, fd10:200::/48]}",
			false,
			nothing,
			[]finding{{note, preflight.NodeAddresses, "IPv4 and IPv6"}},
		},
		{"the default VPC has a node", "defaultVPC: {cidrs: [192.0.2.0/24]}", false, nothing, []finding{{blocking, preflight.Ranges, "the address of node node1"}}},
		{"the default VPC has Services", "defaultVPC: {cidrs: [10.96.128.0/17]}", false, nothing, []finding{{blocking, preflight.Ranges, "the range of Services"}}},
		{"shadows have a node", one + "shadowCIDRs: [192.0.2.0/25]", false, nothing, []finding{{blocking, preflight.Ranges, "shadowCIDRs"}}},
		{"pod ranges that nobody uses", "defaultVPC: {cidrs: [10.244.0.0/16]}", false, nothing, nil},
		{
			"pods in the range",
			"defaultVPC: {cidrs: [10.244.0.0/16]}",
			false,
			pods("10.244.0.7"),
			[]finding{{blocking, preflight.Ranges, "the pod range of node node1"}, {warning, preflight.PresentPods, "1 pods"}},
		},
		{
			"pods without ranges of nodes",
			"defaultVPC: {cidrs: [10.99.0.0/16]}",
			false,
			pods("10.99.0.7"),
			[]finding{{blocking, preflight.Ranges, "a running pod (10.99.0.7/32)"}, {warning, preflight.PresentPods, ""}},
		},
		{"pods of Alioth", "defaultVPC: {cidrs: [10.99.0.0/16]}", false, func(c *preflight.Cluster) {
			pods("10.99.0.7")(c)
			set("alioth-system", "alioth-cnid", "docker.io/alioth/alioth:dev")(c)
		}, []finding{{note, preflight.Present, "alioth-system/alioth-cnid"}}},
		{"other service ranges", one + "serviceCIDRs: [10.97.0.0/16]", false, nothing, []finding{{blocking, preflight.Ranges, "lacks 10.96.0.0/16"}}},
		{
			"flannel",
			one,
			false,
			set("kube-flannel", "kube-flannel-ds", "ghcr.io/flannel-io/flannel:v0.27.0"),
			[]finding{{warning, preflight.OtherNetworks, "flannel runs (DaemonSet kube-flannel/kube-flannel-ds)"}},
		},
		{"kindnet", one, false, set("kube-system", "kindnet", "docker.io/kindest/kindnetd:v1"), []finding{{warning, preflight.OtherNetworks, "kindnet"}}},
		{
			"Calico by its image",
			one,
			false,
			set("calico-system", "node", "quay.io/calico/calico-node@sha256:0"),
			[]finding{{warning, preflight.OtherNetworks, "Calico"}},
		},
		{"Multus", one, false, set("kube-system", "kube-multus-ds", "multus-cni:thick"), []finding{{warning, preflight.OtherNetworks, "multus.md"}}},
		{"kube-proxy", one, false, set("kube-system", "kube-proxy", "registry.k8s.io/kube-proxy:v1.36.0"), []finding{{note, preflight.OtherNetworks, "kube-proxy"}}},
		{"kube-proxy and health pages", one + "daemon: {proxyHealth: true}", false, set("kube-system", "kube-proxy", "registry.k8s.io/kube-proxy:v1.36.0"), []finding{
			{note, preflight.OtherNetworks, "kube-proxy"}, {blocking, preflight.KubeProxy, "10256"},
		}},
		{"an image of Alioth elsewhere", one + "apiServer: {host: ''}", false, set("shop", "x", "docker.io/x/alioth"), []finding{
			{note, preflight.Present, "shop/x"}, {blocking, preflight.APIServerAddress, "not set"},
		}},
		{"an image of Alioth elsewhere, and pods in the range", "defaultVPC: {cidrs: [10.99.0.0/16]}", false, func(c *preflight.Cluster) {
			pods("10.99.0.7")(c)
			set("shop", "x", "x/alioth:1")(c)
		}, []finding{{note, preflight.Present, "--namespace"}, {blocking, preflight.Ranges, "a running pod"}, {warning, preflight.PresentPods, ""}}},
		{
			"an image of Alioth by its digest",
			one + "apiServer: {host: ''}",
			false,
			set("alioth-system", "net", "x/alioth@sha256:0"),
			[]finding{{note, preflight.Present, "is installed already"}},
		},
		{"kube-proxy elsewhere and health pages", one + "daemon: {proxyHealth: true}", false, set("shop", "kube-proxy", "busybox"), []finding{
			{note, preflight.OtherNetworks, "shop/kube-proxy has the name"},
		}},
		{"a tenant's Calico", one, false, set("shop", "calico-node", "busybox"), []finding{{note, preflight.OtherNetworks, "Calico"}}},
		{"another program on all nodes", one, false, set("monitoring", "node-exporter", "node-exporter:v1"), nil},
		{
			"a tenant without a level",
			one,
			false,
			namespace(preflight.Namespace{Name: "a", Tenant: "a"}),
			[]finding{{warning, preflight.PodSecurity, "kubectl label namespace a "}},
		},
		{
			"a privileged tenant",
			one,
			false,
			namespace(preflight.Namespace{Name: "a", Tenant: "a", Enforce: "privileged"}),
			[]finding{{warning, preflight.PodSecurity, `level "privileged"`}},
		},
		{
			"a restricted namespace for Alioth",
			one,
			false,
			namespace(preflight.Namespace{Name: "alioth-system", Enforce: "restricted"}),
			[]finding{{blocking, preflight.PodSecurity, "enforce=privileged"}},
		},
		{"a tenant's namespace for Alioth", one, false, namespace(preflight.Namespace{Name: "alioth-system", Tenant: "a", Enforce: "privileged"}), []finding{
			{blocking, preflight.PodSecurity, "alioth.dev/tenant-"}, {warning, preflight.PodSecurity, ""},
		}},
		{"a remainder", one, false, crd(preflight.CRD{Name: "subnets.alioth.dev"}), []finding{{blocking, preflight.ForeignCRDs, "of no release"}}},
		{
			"another release",
			one,
			false,
			crd(preflight.CRD{Name: "networks.arktos.futurewei.com", Release: "other/alioth"}),
			[]finding{{blocking, preflight.ForeignCRDs, "other/alioth"}},
		},
		{
			"DANM's",
			one,
			false,
			crd(preflight.CRD{Name: "danmnets.danm.k8s.io", WithoutStatus: []string{"v1"}}),
			[]finding{{warning, preflight.ForeignCRDs, "version v1 has no subresource status"}},
		},
		{"DANM's, off", one + "multiNetwork: {enabled: false}", false, crd(preflight.CRD{Name: "danmnets.danm.k8s.io"}), nil},
		{
			"Multus'",
			one,
			false,
			crd(preflight.CRD{Name: "network-attachment-definitions.k8s.cni.cncf.io"}),
			[]finding{{note, preflight.ForeignCRDs, "perhaps of Multus"}},
		},
		{
			"nmstate's",
			one + "nodeNetworkState: {enabled: true}",
			false,
			crd(preflight.CRD{Name: "nodenetworkstates.nmstate.io"}),
			[]finding{{note, preflight.ForeignCRDs, "kubernetes-nmstate"}},
		},
		{"a webhook", one, false, func(c *preflight.Cluster) {
			c.Webhooks = []preflight.Webhook{{Configuration: "istio", Name: "inject.istio.io", Service: "istio-system/istiod"}}
		}, []finding{{warning, preflight.Webhooks, "istio-system/istiod"}}},
	}
}

func TestPreflight_EachClusterFact_FindingReported(t *testing.T) {
	for _, c := range clusterCases() {
		t.Run(c.name, func(t *testing.T) {
			cluster := goodCluster()
			c.change(&cluster)
			expect(t, preflight.JudgeCluster(cluster, values(t, c.values), !c.outside), c.finding...)
		})
	}
}
