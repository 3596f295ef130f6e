// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preflight judges whether Alioth can be installed on a cluster or a node. It is
// pure: package nodefacts collects the facts of a node, and package survey the facts of a
// cluster.
package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
)

// Severity tells whether a finding prevents the installation.
type Severity string

// The severities.
const (
	// Blocking: the installation would fail, or harm running programs.
	Blocking Severity = "Blocking"
	// Warning: a person has to decide something.
	Warning Severity = "Warning"
	// Note: a fact that the installation depends on.
	Note Severity = "Note"
)

// rank orders severities, the gravest first.
func (s Severity) rank() int { return slices.Index([]Severity{Blocking, Warning, Note}, s) }

// Check names a check. docs/install/preflight.md describes each.
type Check string

// The checks of nodes.
const (
	Rights           Check = "rights"
	KernelVersion    Check = "kernel-version"
	KernelFeatures   Check = "kernel-features"
	CgroupV2         Check = "cgroup-v2"
	BPFFilesystem    Check = "bpf-filesystem"
	PortsInUse       Check = "ports"
	NodeMTU          Check = "mtu"
	CNIFolder        Check = "cni-folder"
	CNIConfiguration Check = "cni-configuration"
	ForeignPrograms  Check = "foreign-programs"
	PacketFilter     Check = "packet-filter"
	Masquerading     Check = "masquerading"
	KubeProxy        Check = "kube-proxy"
	NodeSettings     Check = "kernel-settings"
	DiskSpace        Check = "disk-space"
	ContainerRuntime Check = "container-runtime"
	Present          Check = "present-installation"
)

// The checks of clusters.
const (
	NotRead           Check = "not-read"
	KubernetesVersion Check = "kubernetes-version"
	APIFeatures       Check = "api-features"
	APIServerAddress  Check = "api-server-address"
	NodeNames         Check = "node-names"
	NodePlatform      Check = "node-platform"
	NodesReady        Check = "nodes-ready"
	NodeAddresses     Check = "node-addresses"
	NodeInside        Check = "node-inside"
	Ranges            Check = "ranges"
	OtherNetworks     Check = "other-networks"
	PresentPods       Check = "present-pods"
	SharedServices    Check = "shared-services"
	PodSecurity       Check = "pod-security"
	ForeignCRDs       Check = "foreign-crds"
	Webhooks          Check = "admission-webhooks"
)

// Checks returns the names of all checks.
func Checks() []Check {
	return []Check{
		Rights, KernelVersion, KernelFeatures, CgroupV2, BPFFilesystem, PortsInUse, NodeMTU, CNIFolder, CNIConfiguration,
		ForeignPrograms, PacketFilter, Masquerading, KubeProxy, NodeSettings, DiskSpace, ContainerRuntime, Present,
		NotRead, KubernetesVersion, APIFeatures, APIServerAddress, NodeNames, NodePlatform, NodesReady, NodeAddresses,
		NodeInside,
		Ranges, OtherNetworks, PresentPods, SharedServices, PodSecurity, ForeignCRDs, Webhooks,
	}
}

// Finding is one fact that a person should know before the installation.
type Finding struct {
	Severity Severity `json:"severity"`
	Check    Check    `json:"check"`
	// Nodes are the nodes with this finding; none if it concerns the cluster.
	Nodes []string `json:"nodes,omitempty"`
	// Found is the fact, Remedy the action of a person; "" for no action.
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"`
}

// namedNodes is the number of nodes that a finding names as text.
const namedNodes = 5

// String returns the finding as a line.
func (f Finding) String() string {
	line := fmt.Sprintf("%-8s %s: ", f.Severity, f.Check)
	if len(f.Nodes) > 0 {
		named := f.Nodes[:min(len(f.Nodes), namedNodes)]
		line += "node " + strings.Join(named, ", ")
		if more := len(f.Nodes) - len(named); more > 0 {
			line += fmt.Sprintf(" and %d more", more)
		}
		line += ": "
	}
	line += f.Found
	if f.Remedy != "" {
		line += ". " + strings.ToUpper(f.Remedy[:1]) + f.Remedy[1:]
	}
	return line
}

// Sorted returns the findings with the gravest first. Equal findings of several nodes become
// one.
func Sorted(findings []Finding) []Finding {
	var merged []Finding
	for _, f := range findings {
		i := slices.IndexFunc(merged, func(m Finding) bool {
			return len(m.Nodes) > 0 && len(f.Nodes) > 0 && m.Severity == f.Severity && m.Check == f.Check &&
				m.Found == f.Found &&
				m.Remedy == f.Remedy
		})
		if i < 0 {
			f.Nodes = slices.Clone(f.Nodes)
			merged = append(merged, f)
			continue
		}
		for _, name := range f.Nodes {
			if !slices.Contains(merged[i].Nodes, name) {
				merged[i].Nodes = append(merged[i].Nodes, name)
			}
		}
	}
	slices.SortStableFunc(merged, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity.rank(), b.Severity.rank()), cmp.Compare(a.Check, b.Check))
	})
	return merged
}

// Blocks reports whether a finding prevents the installation.
func Blocks(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == Blocking })
}

// list collects findings about one subject.
type list struct {
	nodes []string
	all   []Finding
}

// add adds a finding. Parts of both texts may come from a node's pod or from a tenant.
func (l *list) add(severity Severity, check Check, remedy, format string, values ...any) {
	l.all = append(
		l.all,
		Finding{
			Severity: severity,
			Check:    check,
			Nodes:    l.nodes,
			Found:    quote.Message(fmt.Sprintf(format, values...)),
			Remedy:   quote.Message(remedy),
		},
	)
}
