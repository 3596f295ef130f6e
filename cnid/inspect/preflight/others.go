// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// guide is the page about clusters with another network.
const guide = "docs/install/existing-network.md"

// network is a program of another project for the network of pods. The name of its DaemonSet, or
// the name of its image, identifies it.
type network struct {
	name     string
	begins   []string
	severity Severity
	remedy   string
}

// primary is the remedy for networks that Alioth replaces.
const primary = "follow " + guide + ": drain node by node, then delete the DaemonSet"

var networks = []network{
	{"flannel", []string{"kube-flannel", "flannel"}, Warning, primary},
	{"kindnet", []string{"kindnet"}, Warning, primary},
	{"Calico", []string{"calico-node"}, Warning, primary + " with the operator that would make it again"},
	{
		"Cilium",
		[]string{"cilium"},
		Warning,
		primary + "; its programs at sockets and devices have to end before Alioth starts on a node",
	},
	{"Antrea", []string{"antrea-agent"}, Warning, primary},
	{"Weave Net", []string{"weave-net", "weave-kube"}, Warning, primary},
	{"kube-router", []string{"kube-router"}, Warning, primary},
	{"Kube-OVN", []string{"kube-ovn-cni", "ovs-ovn"}, Warning, primary},
	{"OVN-Kubernetes", []string{"ovnkube"}, Warning, primary},
	{"the VPC CNI of AWS", []string{"aws-node"}, Warning, primary},
	{
		"Azure CNI",
		[]string{"azure-cns", "azure-cni"},
		Warning,
		"for nodes that keep Azure's CNI see docs/operate/node-ipam-api.md; for others follow " + guide,
	},
	{
		"Multus",
		[]string{"kube-multus", "multus"},
		Warning,
		"follow docs/migrate/multus.md; while both run, leave npwg out of the chart value multiNetwork.annotations",
	},
	{"DANM", []string{"danm-cni", "netwatcher", "danm-svcwatcher"}, Warning, "follow docs/migrate/danm.md"},
	{"Whereabouts", []string{"whereabouts"}, Note, "delegated networks can keep it; networks of Alioth do not need it"},
	{
		"kubernetes-nmstate",
		[]string{"nmstate-handler"},
		Warning,
		"follow docs/migrate/nmstate.md before nodeNetworkState.enabled is true",
	},
	proxy,
}

// is reports whether a DaemonSet belongs to the network.
func (n network) is(d DaemonSet) bool {
	names := []string{d.Name}
	for _, image := range d.Images {
		repository, _, _ := strings.Cut(path.Base(image), "@")
		names = append(names, strings.Split(repository, ":")[0])
	}
	return slices.ContainsFunc(n.begins, func(begin string) bool {
		return slices.ContainsFunc(
			names,
			func(name string) bool { return name == begin || strings.HasPrefix(name, begin+"-") },
		)
	})
}

// proxy is the program that serves Services in most clusters. Its namespace is always the same.
var proxy = network{
	"kube-proxy",
	[]string{"kube-proxy"},
	Note,
	"leave it running, or remove it after the migration: Alioth serves Services by itself",
}

// proxyNamespace is the namespace of kube-proxy's DaemonSet.
const proxyNamespace = "kube-system"

// alioth is Alioth itself.
var alioth = network{name: "Alioth", begins: []string{"alioth"}}

// hasAlioth reports whether Alioth's daemons are installed.
func (c Cluster) hasAlioth() bool { return len(c.aliothSets()) > 0 }

// aliothSets returns the DaemonSets of the installation. The namespace of the release alone
// counts: in another one a tenant would switch checks off by the name of an image.
func (c Cluster) aliothSets() (names []string) {
	for _, d := range c.DaemonSets {
		if d.Namespace == c.Namespace && alioth.is(d) {
			names = append(names, d.String())
		}
	}
	return names
}

// hasProxy reports whether kube-proxy runs. Its namespace alone counts, as with Alioth.
func (c Cluster) hasProxy() bool {
	return slices.ContainsFunc(
		c.DaemonSets,
		func(d DaemonSet) bool { return d.Namespace == proxyNamespace && proxy.is(d) },
	)
}

// ofTenant reports whether a tenant may have written the objects of a namespace.
func (c Cluster) ofTenant(namespace string) bool {
	return slices.ContainsFunc(c.Namespaces, func(n Namespace) bool { return n.Name == namespace && n.Tenant != "" })
}

// judgeSet reports another network for pods. A DaemonSet with a known name or image in a wrong
// namespace is a note, because a tenant can make one.
func (c Cluster) judgeSet(l *list, d DaemonSet) {
	if d.Namespace != c.Namespace && alioth.is(d) {
		l.add(Note, Present, "if it is an installation of Alioth, give its namespace by --namespace",
			"DaemonSet %s has the name or the image of Alioth, and is not in its namespace %s", d, c.Namespace)
		return
	}
	i := slices.IndexFunc(networks, func(n network) bool { return n.is(d) })
	switch {
	case i < 0:
	case c.ofTenant(d.Namespace), networks[i].name == proxy.name && d.Namespace != proxyNamespace:
		l.add(
			Note,
			OtherNetworks,
			"ask who made it: the network of a cluster is elsewhere",
			"DaemonSet %s has the name or the image of %s",
			d,
			networks[i].name,
		)
	default:
		l.add(networks[i].severity, OtherNetworks, networks[i].remedy, "%s runs (DaemonSet %s)", networks[i].name, d)
	}
}

func (c Cluster) judgeNetworks(l *list, v Values) {
	for _, d := range c.DaemonSets {
		c.judgeSet(l, d)
	}
	if sets := c.aliothSets(); len(sets) > 0 {
		l.add(
			Note,
			Present,
			"upgrade it with helm upgrade",
			"Alioth is installed already (DaemonSet %s)",
			strings.Join(sets, ", "),
		)
		return
	}
	if len(c.PodIPs) > 0 {
		l.add(Warning, PresentPods, "recreate each of them after its node has Alioth: drain the nodes one by one ("+guide+")",
			"%d pods have addresses of the present network, and keep them until they end", len(c.PodIPs))
	}
	if v.Daemon.ProxyHealth && c.hasProxy() {
		l.add(
			Blocking,
			KubeProxy,
			"set the chart value daemon.proxyHealth to false while kube-proxy runs",
			"kube-proxy serves its health pages at port %d of each node",
			proxyHealthPort,
		)
	}
}

// levels are the Pod Security levels that keep a tenant from control of its node.
var levels = []string{"restricted", "baseline"}

func (c Cluster) judgeSecurity(l *list) {
	for _, n := range c.Namespaces {
		if n.Tenant != "" && !slices.Contains(levels, n.Enforce) {
			l.add(
				Warning,
				PodSecurity,
				fmt.Sprintf("run: kubectl label namespace %s pod-security.kubernetes.io/enforce=baseline", n.Name),
				"namespace %s is one of tenant %s and has the Pod Security level %q, so its pods may control their node",
				n.Name,
				n.Tenant,
				cmp.Or(n.Enforce, "none"),
			)
		}
		if n.Name == c.Namespace && slices.Contains(levels, n.Enforce) {
			l.add(
				Blocking,
				PodSecurity,
				fmt.Sprintf("run: kubectl label --overwrite namespace %s pod-security.kubernetes.io/enforce=privileged", n.Name),
				"namespace %s enforces the Pod Security level %s, and Alioth's pods are privileged, use hostPath and the network of the nodes",
				n.Name,
				n.Enforce,
			)
		}
		if n.Name == c.Namespace && n.Tenant != "" {
			l.add(
				Blocking,
				PodSecurity,
				fmt.Sprintf("run: kubectl label namespace %s %s-", n.Name, v1alpha1.TenantLabel),
				"namespace %s is one of tenant %s",
				n.Name,
				n.Tenant,
			)
		}
	}
	for _, w := range c.Webhooks {
		l.add(
			Warning,
			Webhooks,
			fmt.Sprintf(
				"exclude the namespaces %s and kube-system from it (namespaceSelector), so that it can't prevent the pods that start the network",
				c.Namespace,
			),
			"the webhook %s of %s is served by pods (Service %s), and requests for pods fail without its answer",
			w.Name,
			w.Configuration,
			w.Service,
		)
	}
}

// area is a part of the API that other programs have too.
type area struct {
	suffixes []string
	enabled  bool
	program  string
	remedy   string
}

func areas(v Values) []area {
	return []area{
		{
			[]string{".danm.k8s.io", ".danm.io"},
			v.MultiNetwork.Enabled,
			"DANM",
			"follow docs/migrate/danm.md, or set multiNetwork.enabled to false",
		},
		{
			[]string{".k8s.cni.cncf.io"},
			v.MultiNetwork.Enabled,
			"Multus",
			"none is necessary; docs/migrate/multus.md describes what Alioth reads of it",
		},
		{
			[]string{".nmstate.io"},
			v.NodeNetworkState.Enabled,
			"kubernetes-nmstate",
			"follow docs/migrate/nmstate.md before nodeNetworkState.enabled is true",
		},
		{
			[]string{".multitenancy.acn.azure.com", ".acn.azure.com"},
			v.NodeIPAM.Enabled,
			"Azure CNS",
			"give the CRD to Alioth's release, as the notes of the installation say",
		},
	}
}

func (c Cluster) judgeCRDs(l *list, v Values) {
	for _, crd := range c.CRDs {
		own := crd.Release == c.Namespace+"/"+c.Release
		if strings.HasSuffix(crd.Name, "."+v1alpha1.GroupVersion.Group) ||
			strings.HasSuffix(crd.Name, ".arktos.futurewei.com") {
			if !own {
				l.add(
					Blocking,
					ForeignCRDs,
					"delete it if it is a remainder; otherwise install the chart with crds.enabled=false, or with the namespace and name of that release",
					"the CRD %s is there, and is not of the Helm release %s in namespace %s (%s)",
					crd.Name,
					c.Release,
					c.Namespace,
					cmp.Or(crd.Release, "of no release"),
				)
			}
			continue
		}
		for _, a := range areas(v) {
			if own || !a.enabled ||
				!slices.ContainsFunc(a.suffixes, func(suffix string) bool { return strings.HasSuffix(crd.Name, suffix) }) {
				continue
			}
			found := fmt.Sprintf(
				"the CRD %s is not of Alioth's release, perhaps of %s; the chart leaves it as it is",
				crd.Name,
				a.program,
			)
			severity := Note
			if len(crd.WithoutStatus) > 0 {
				severity = Warning
				found += fmt.Sprintf(
					"; version %s has no subresource status, so its objects never become Ready",
					strings.Join(crd.WithoutStatus, ", "),
				)
			}
			l.add(severity, ForeignCRDs, a.remedy, "%s", found)
			break
		}
	}
}
