// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/helm"
)

// Cluster has the facts of a cluster.
type Cluster struct {
	// Version is the version of the API server, Served the API groups with their versions.
	Version string   `json:"version"`
	Served  []string `json:"served,omitempty"`
	// Endpoints are the addresses of the API server.
	Endpoints []netip.AddrPort `json:"endpoints,omitempty"`
	Nodes     []ClusterNode    `json:"nodes,omitempty"`
	// ServiceCIDRs are the ranges of all ServiceCIDR objects.
	ServiceCIDRs []netip.Prefix `json:"serviceCIDRs,omitempty"`
	// Services are the namespaces and names of all Services.
	Services []string `json:"services,omitempty"`
	// PodIPs are addresses of running pods that have a network of their own.
	PodIPs     []netip.Addr `json:"podIPs,omitempty"`
	DaemonSets []DaemonSet  `json:"daemonSets,omitempty"`
	Namespaces []Namespace  `json:"namespaces,omitempty"`
	CRDs       []CRD        `json:"crds,omitempty"`
	Webhooks   []Webhook    `json:"webhooks,omitempty"`
	// Unread are the kinds that could not be read, with the cause.
	Unread []string `json:"unread,omitempty"`
	// Namespace is the future namespace of Alioth, Release the name of its Helm release.
	Namespace string `json:"namespace"`
	Release   string `json:"release"`
}

// ClusterNode is a Node object.
type ClusterNode struct {
	Name string `json:"name"`
	// Kernel, Runtime and OS are as the kubelet reports them.
	Kernel  string `json:"kernel"`
	Runtime string `json:"runtime"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Ready   bool   `json:"ready"`
	// Labels are the labels of the chart's value daemon.nodeSelector.
	Labels map[string]string `json:"-"`
	// Internal are the addresses of type InternalIP, Addresses all addresses.
	Internal  []netip.Addr   `json:"internal,omitempty"`
	Addresses []netip.Addr   `json:"addresses,omitempty"`
	PodCIDRs  []netip.Prefix `json:"podCIDRs,omitempty"`
}

// DaemonSet is a workload on all nodes.
type DaemonSet struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Images    []string `json:"images,omitempty"`
}

// String returns the namespace and the name.
func (d DaemonSet) String() string { return d.Namespace + "/" + d.Name }

// Namespace is a namespace with the labels that isolation depends on.
type Namespace struct {
	Name    string `json:"name"`
	Tenant  string `json:"tenant,omitempty"`
	Enforce string `json:"enforce,omitempty"`
}

// CRD is a CustomResourceDefinition of a name that the chart has too.
type CRD struct {
	Name string `json:"name"`
	// Release is the Helm release that it belongs to, as namespace/name; "" without one.
	Release string `json:"release,omitempty"`
	// WithoutStatus are its versions without the subresource status.
	WithoutStatus []string `json:"withoutStatus,omitempty"`
}

// Webhook is an admission webhook that a pod serves, and without whose answer requests
// for pods or nodes fail.
type Webhook struct {
	Configuration string `json:"configuration"`
	Name          string `json:"name"`
	Service       string `json:"service"`
}

// JudgeCluster returns the findings about a cluster before an installation of Alioth with these
// values. inside reports whether facts of the nodes are judged too.
func JudgeCluster(c Cluster, v Values, inside bool) []Finding {
	l := &list{}
	for _, unread := range c.Unread {
		l.add(Warning, NotRead, "run the command with the rights of a cluster administrator", "%s", unread)
	}
	c.judgeAPI(l, v)
	if len(c.Nodes) > 0 && len(c.labelled(v)) == 0 {
		l.add(
			Note,
			NodePlatform,
			"label the nodes one by one ("+guide+"), or correct the value",
			"the chart value daemon.nodeSelector selects no node now; all Linux nodes were checked",
		)
	}
	for _, n := range c.selected(v) {
		l.all = append(l.all, n.judge(inside)...)
	}
	c.judgeFamilies(l, v)
	c.judgeRanges(l, v)
	c.judgeNetworks(l, v)
	c.judgeSecurity(l)
	c.judgeCRDs(l, v)
	if !inside {
		l.add(
			Note,
			NodeInside,
			"run aliothctl preflight --node as root on each kind of node, or repeat this command with --node-checks",
			"the kernel features, ports, packet filters and CNI folders of the nodes were not checked",
		)
	}
	return l.all
}

// Linux returns the nodes that get a daemon and can run it.
func (c Cluster) Linux(v Values) []ClusterNode {
	return slices.DeleteFunc(c.selected(v), func(n ClusterNode) bool { return n.OS != "linux" })
}

// selected returns the nodes that get a daemon. If none has the labels yet, as before a change
// node by node, these are all Linux nodes.
func (c Cluster) selected(v Values) []ClusterNode {
	if nodes := c.labelled(v); len(nodes) > 0 {
		return nodes
	}
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(n ClusterNode) bool { return n.OS != "linux" })
}

// labelled returns the nodes that the chart selects now.
func (c Cluster) labelled(v Values) (nodes []ClusterNode) {
	for _, n := range c.Nodes {
		selected := true
		for key, value := range v.Daemon.NodeSelector {
			selected = selected && n.Labels[key] == value
		}
		if selected {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// kubeVersion returns the oldest version of Kubernetes that the chart permits, from its
// constraint ">= 1.2.3-0".
func kubeVersion() (*utilversion.Version, error) {
	var chart struct {
		KubeVersion string `json:"kubeVersion"`
	}
	if err := yaml.Unmarshal(helm.Chart, &chart); err != nil {
		return nil, fmt.Errorf("read the description of the chart: %w", err)
	}
	oldest, found := strings.CutPrefix(chart.KubeVersion, ">=")
	if !found {
		return nil, fmt.Errorf("the chart's kubeVersion %q does not begin with >=", chart.KubeVersion)
	}
	return utilversion.ParseGeneric(strings.TrimSuffix(strings.TrimSpace(oldest), "-0"))
}

// feature is an API that the chart needs.
type feature struct{ served, use, remedy string }

func features(v Values) []feature {
	list := []feature{
		{"admissionregistration.k8s.io/v1/validatingadmissionpolicies", "admission policies", "upgrade Kubernetes"},
		{"apiextensions.k8s.io/v1/customresourcedefinitions", "the kinds of Alioth", "upgrade Kubernetes"},
		{"discovery.k8s.io/v1/endpointslices", "Services", "upgrade Kubernetes"},
		{"coordination.k8s.io/v1/leases", "the operator's election", "upgrade Kubernetes"},
	}
	if v.FlowControl.Enabled {
		list = append(
			list,
			feature{
				"flowcontrol.apiserver.k8s.io/v1/flowschemas",
				"priorities of requests",
				"set the chart value flowControl.enabled to false",
			},
		)
	}
	if len(v.ServiceCIDRs) == 0 {
		list = append(
			list,
			feature{
				"networking.k8s.io/v1/servicecidrs",
				"the ranges of Services",
				"set the chart value serviceCIDRs to the ranges of the API server's --service-cluster-ip-range",
			},
		)
	}
	return list
}

func (c Cluster) judgeAPI(l *list, v Values) {
	oldest, err := kubeVersion()
	have, errHave := utilversion.ParseGeneric(strings.TrimPrefix(c.Version, "v"))
	switch {
	case err != nil || errHave != nil:
		l.add(Warning, KubernetesVersion, "", "the version of Kubernetes %q can't be compared", c.Version)
	case have.LessThan(oldest):
		l.add(
			Blocking,
			KubernetesVersion,
			"upgrade Kubernetes to "+oldest.String()+" or newer",
			"Kubernetes is %s",
			c.Version,
		)
	}
	for _, f := range features(v) {
		if len(c.Served) > 0 && !slices.Contains(c.Served, f.served) {
			l.add(Blocking, APIFeatures, f.remedy, "the API server does not serve %s, which Alioth uses for %s", f.served, f.use)
		}
	}
	c.judgeShared(l, v)
	if v.APIServer.Host == "" && c.hasAlioth() {
		return // values were given at the installation
	}
	if v.APIServer.Host == "" {
		l.add(
			Blocking,
			APIServerAddress,
			"set the chart values apiServer.host and apiServer.port to an address that all nodes reach without a Service"+likely(
				c.Endpoints,
			),
			"the chart value apiServer.host is not set",
		)
	} else if host, err := netip.ParseAddr(v.APIServer.Host); err == nil && within(host, c.serviceRanges(v)) {
		l.add(Blocking, APIServerAddress, "give the address of a control plane node or of a load balancer"+likely(c.Endpoints),
			"the chart value apiServer.host (%s) is the ClusterIP of a Service, which is not served before Alioth runs", host)
	}
}

// judgeShared looks for the Services that pods of every VPC reach.
func (c Cluster) judgeShared(l *list, v Values) {
	for _, service := range v.SharedServices {
		if len(c.Services) > 0 && !slices.Contains(c.Services, service) {
			l.add(
				Warning,
				SharedServices,
				"set the chart value sharedServices to the Services of the Kubernetes API and of cluster DNS",
				"the chart value sharedServices has %s, and there is no such Service",
				service,
			)
		}
	}
}

// likely names an address of the API server as part of a sentence.
func likely(endpoints []netip.AddrPort) string {
	if len(endpoints) == 0 {
		return ""
	}
	return fmt.Sprintf(", for example %s and %d", endpoints[0].Addr(), endpoints[0].Port())
}

// TestedRuntimes returns the container runtimes that are tested, by the begin of the kubelet's
// text. test/versions compares them with its tests.
func TestedRuntimes() []string { return []string{"containerd://2.", "containerd://1.7."} }

func (n ClusterNode) judge(inside bool) []Finding {
	l := &list{nodes: []string{n.Name}}
	if len(n.Name) > v1alpha1.MaxNodeName {
		l.add(
			Blocking,
			NodeNames,
			"give the node a shorter name",
			"the name has %d characters, and Alioth serves %d at most",
			len(n.Name),
			v1alpha1.MaxNodeName,
		)
	}
	if n.OS != "linux" {
		l.add(
			Blocking,
			NodePlatform,
			"exclude the node by the chart value daemon.nodeSelector",
			"the operating system is %s",
			n.OS,
		)
		return l.all
	}
	if n.Arch != "amd64" && n.Arch != "arm64" {
		l.add(
			Blocking,
			NodePlatform,
			"exclude the node by the chart value daemon.nodeSelector",
			"the architecture is %s, and images exist for amd64 and arm64",
			n.Arch,
		)
	}
	if !n.Ready {
		l.add(
			Warning,
			NodesReady,
			"expected on a node without a network for pods; otherwise see kubectl describe node",
			"the node is not Ready",
		)
	}
	if !inside {
		l.all = append(l.all, n.judgeKernel()...)
	}
	if !slices.ContainsFunc(TestedRuntimes(), func(begin string) bool { return strings.HasPrefix(n.Runtime, begin) }) {
		l.add(
			Warning,
			ContainerRuntime,
			"use containerd 2, or test the runtime first",
			"the container runtime is %s, with which Alioth is not tested",
			n.Runtime,
		)
	}
	if len(n.Internal) == 0 {
		l.add(
			Blocking,
			NodeAddresses,
			"set --node-ip of the kubelet",
			"the Node has no address of type InternalIP, which tunnels lead to",
		)
	}
	return l.all
}

// judgeKernel judges the version that the kubelet reports.
func (n ClusterNode) judgeKernel() []Finding {
	l := &list{nodes: []string{n.Name}}
	Node{Kernel: n.Kernel}.judgeKernel(l, Values{})
	return l.all
}

// families returns the families of addresses, as "IPv4", "IPv6" or both.
func families[T any](list []T, of func(T) ipfamily.Family) string {
	var names []string
	for _, family := range ipfamily.Both {
		if slices.ContainsFunc(list, func(one T) bool { return of(one) == family }) {
			names = append(names, family.String())
		}
	}
	return strings.Join(names, " and ")
}

func (c Cluster) judgeFamilies(l *list, v Values) {
	nodes := map[string][]string{}
	for _, n := range c.selected(v) {
		if of := families(n.Internal, ipfamily.Of); of != "" {
			nodes[of] = append(nodes[of], n.Name)
		}
	}
	if len(nodes["IPv4"]) > 0 && len(nodes["IPv6"]) > 0 {
		l.all = append(l.all, Finding{
			Severity: Blocking, Check: NodeAddresses, Nodes: nodes["IPv6"],
			Found:  "the Node has addresses of IPv6 alone, and other Nodes have addresses of IPv4 alone, so no tunnel connects them",
			Remedy: "give all nodes an address of one family, by --node-ip of the kubelet",
		})
	}
	if len(nodes["IPv4 and IPv6"]) == 0 && v.DefaultVPC.Enabled {
		have := families(slices.Concat(c.internal(v)...), ipfamily.Of)
		family := func(p netip.Prefix) ipfamily.Family { return ipfamily.Of(p.Addr()) }
		if want := families(v.DefaultVPC.CIDRs, family); have != "" && want != have {
			l.add(
				Note,
				NodeAddresses,
				"",
				"the Nodes have addresses of %s, and the default VPC has ranges of %s: pods reach the outside by the family of the nodes alone",
				have,
				want,
			)
		}
	}
}

func (c Cluster) internal(v Values) (all [][]netip.Addr) {
	for _, n := range c.selected(v) {
		all = append(all, n.Internal)
	}
	return all
}
