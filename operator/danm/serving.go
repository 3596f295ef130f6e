// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/verdict"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// Serving has the kinds of networks that the nodes of the cluster serve.
type Serving struct {
	// Kinds are the dynamic types that nodes have drivers for.
	Kinds []string
	// VPCTypes are types, in lower case, that stand for the VPC of a pod.
	VPCTypes []string
	// Delegation: nodes run other CNI plugins.
	Delegation bool
}

// judge sets a correct network to not Ready if no pod can use it in the present cluster.
func (s Serving) judge(tx store.ReadTx, net *multinet.Network, d decision) decision {
	if !d.IsReady() {
		return d
	}
	if d.profile != nil {
		net = d.profile.on(net)
	}
	if r := s.lacks(tx, net, d.link); r != nil {
		return d.refused(r)
	}
	return d
}

// lacks finds what the cluster lacks for a network, nil if some pod may use it.
func (s Serving) lacks(tx store.ReadTx, net *multinet.Network, link *linkState) *verdict.Verdict {
	switch {
	case slices.Contains(s.VPCTypes, net.Type):
		return nil
	case !multinet.Dynamic(net.Type):
		return s.static(tx, net)
	case !slices.Contains(s.Kinds, net.Type):
		return refuse(v1alpha1.NetworkTypeReason, fmt.Sprintf(
			"no node serves the type %q: set multiNetwork.sriov.enabled of the chart, or use one of the types %v",
			net.Type,
			s.Kinds,
		))
	case net.Type == multinet.TypeSRIOV:
		return pooled(tx, net)
	case net.HostDevice == "":
		return refuse(
			v1alpha1.NetworkTypeReason,
			fmt.Sprintf(
				"an interface of type %q is derived from a device of the node, and the network names none: set spec.Options.host_device",
				net.Type,
			),
		)
	case link != nil && link.everywhere:
		return refuse(v1alpha1.NoServingNodeReason, "no node can serve it: "+link.message)
	}
	return nil
}

// static finds what a network of a static type lacks: plugins on the nodes, a grant of its own,
// or a file.
func (s Serving) static(tx store.ReadTx, net *multinet.Network) *verdict.Verdict {
	if !s.Delegation {
		return refuse(v1alpha1.NetworkTypeReason, fmt.Sprintf(
			"a CNI plugin serves the type %q, and no node runs plugins: set multiNetwork.delegation.enabled of the chart, name the type in multiNetwork.vpcTypes if it is the cluster's own network, or use one of the types %v",
			net.Type,
			s.Kinds,
		))
	}
	for grant := range multinet.AllGrants(tx) {
		runs := slices.ContainsFunc(grant.Plugins, func(plugin string) bool { return strings.EqualFold(plugin, net.Type) })
		if runs && grant.Covers(net.Reference()) {
			return configured(tx, net)
		}
	}
	return refuse(v1alpha1.DelegationNotGrantedReason, fmt.Sprintf(
		"no DelegationGrant names it or its namespace with the plugin %q: ask the cluster administrator for one, or use one of the types %v",
		net.Type,
		s.Kinds,
	))
}

// configured finds that no node has a configuration for a network: all of them have told theirs.
// It looks at all nodes only where none of the reports has one.
func configured(tx store.ReadTx, net *multinet.Network) *verdict.Verdict {
	for range multinet.ReportsWith(tx, net.NetworkID) {
		return nil
	}
	nodes := 0
	for row := range store.Nodes(tx) {
		report := multinet.GetLinkReport(tx, row.Name)
		if !row.Deleting && (report == nil || !report.Configured) {
			return nil
		}
		nodes++
	}
	if nodes == 0 {
		return nil
	}
	return refuse(v1alpha1.PluginFileMissingReason, fmt.Sprintf(
		"no node has the file %s.conflist or %s.conf in the directory of its CNI configurations: create it there, or correct spec.NetworkID",
		net.NetworkID,
		net.NetworkID,
	))
}

// pooled finds that no node offers devices of a network's pool.
func pooled(tx store.ReadTx, net *multinet.Network) *verdict.Verdict {
	if store.IsOffered(tx, net.DevicePool) {
		return nil
	}
	return refuse(v1alpha1.NoServingNodeReason, fmt.Sprintf(
		"no node offers devices of %s: look at the device plugin and at status.allocatable of the Nodes, or correct spec.Options.device_pool",
		net.DevicePool,
	))
}

// areAll reports whether the cluster has exactly this number of nodes. It looks at one node more
// than that.
func areAll(tx store.ReadTx, count int) bool {
	if count == 0 {
		return false
	}
	for row := range store.Nodes(tx) {
		if row.Deleting {
			continue
		}
		if count--; count < 0 {
			return false
		}
	}
	return true
}

// ofGrant requests the networks of static types that a grant covers, before or after its change.
func (w watch) ofGrant(tx store.ReadTx, old, now *multinet.Grant) []feed.Request {
	var all []feed.Request
	for net := range multinet.Networks(tx) {
		covered := old != nil && old.Covers(net.Reference()) || now != nil && now.Covers(net.Reference())
		if covered && !multinet.Dynamic(net.Type) {
			all = append(all, w.of(net)...)
		}
	}
	return all
}

// ofNode requests the networks that only one node may serve when that node comes or goes. It also
// requests the networks of a pool when the node begins or stops offering devices of it.
func (w watch) ofNode(tx store.ReadTx, old, now *store.Node) []feed.Request {
	var all []feed.Request
	for _, pool := range changedPools(old, now) {
		all = append(all, w.of(multinet.OnParent(tx, pool)...)...)
	}
	if old != nil && now != nil && old.UID == now.UID && old.Deleting == now.Deleting {
		return later(all)
	}
	var failures []multinet.LinkFailure
	ids := map[string]bool{}
	for report := range multinet.LinkReports(tx) {
		failures = append(failures, report.Failures...)
		if now == nil && report.Name == old.Name {
			for _, id := range report.Configurations {
				ids[id] = true
			}
		}
	}
	all = append(all, w.lacking(tx, failures)...)
	all = append(all, w.of(multinet.Refused(tx, v1alpha1.PluginFileMissingReason)...)...)
	return later(append(all, w.configuredBy(tx, ids)...))
}

// ofReport requests the networks that a change of a report may concern.
func (w watch) ofReport(tx store.ReadTx, old, now *multinet.LinkReport) []feed.Request {
	var before, after multinet.LinkReport
	if old != nil {
		before = *old
	}
	if now != nil {
		after = *now
	}
	var all []feed.Request
	if !slices.Equal(before.Failures, after.Failures) {
		all = w.lacking(tx, slices.Concat(before.Failures, after.Failures))
	}
	ids := map[string]bool{}
	if before.Configured != after.Configured || !slices.Equal(before.Configurations, after.Configurations) {
		for _, id := range slices.Concat(before.Configurations, after.Configurations) {
			ids[id] = true
		}
		all = append(all, w.of(multinet.Refused(tx, v1alpha1.PluginFileMissingReason)...)...)
		if after.Configured && !before.Configured { // the last node to report that it has no file
			ids[""] = true
		}
	}
	return later(append(all, w.configuredBy(tx, ids)...))
}

// lacking requests the networks that failures are about.
func (w watch) lacking(tx store.ReadTx, failures []multinet.LinkFailure) []feed.Request {
	var all []feed.Request
	done := map[string]bool{}
	for _, failure := range failures {
		if failure.Device == "" {
			return w.everything(tx)
		}
		if !done[failure.Device] {
			done[failure.Device] = true
			all = append(all, w.of(multinet.OnParent(tx, failure.Device)...)...)
		}
	}
	return all
}

// configuredBy requests the networks of static types with one of these NetworkIDs. The NetworkID ""
// means all networks.
func (w watch) configuredBy(tx store.ReadTx, ids map[string]bool) []feed.Request {
	if len(ids) == 0 {
		return nil
	}
	var all []feed.Request
	for net := range multinet.Networks(tx) {
		if !multinet.Dynamic(net.Type) && (ids[""] || ids[net.NetworkID]) {
			all = append(all, w.of(net)...)
		}
	}
	return all
}

// changedPools returns the pools that a node offers devices of before a change or after it.
func changedPools(old, now *store.Node) []string {
	var before, after []string
	if old != nil {
		before = old.Pools
	}
	if now != nil {
		after = now.Pools
	}
	if slices.Equal(before, after) {
		return nil
	}
	return slices.Concat(before, after)
}
