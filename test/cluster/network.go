// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"github.com/alioth-net/alioth/test/cluster/addons"
	"github.com/alioth-net/alioth/test/cluster/control"
	"github.com/alioth-net/alioth/test/cluster/objects"
	"github.com/alioth-net/alioth/test/images"
	"github.com/alioth-net/alioth/test/waits"
)

// network connects the pods and waits until the cluster is usable.
func (c *Cluster) network(ctx context.Context, o Options, p parts) error {
	ctx, cancel := context.WithTimeout(ctx, waits.Limit(installTimeout))
	defer cancel()
	switch o.CNI {
	case CNINone:
		return nil
	case CNIBridge:
		if err := c.configureBridges(); err != nil {
			return err
		}
	case CNIFlannel:
		if err := c.startFlannel(ctx); err != nil {
			return err
		}
	case CNIAlioth:
		if err := c.installChart(ctx, p); err != nil {
			return err
		}
	}
	c.progress("waiting for the nodes")
	if err := c.WaitNodesReady(ctx); err != nil {
		return err
	}
	return c.installDNS(ctx, o)
}

// configureBridges connects the pods by plugins of the CNI project.
func (c *Cluster) configureBridges() error {
	c.progress("configuring the plugins bridge and host-local")
	var nodes []addons.Bridge
	for _, n := range c.Nodes() {
		nodes = append(nodes, addons.Bridge{Machine: c.machine(n.Name), NetNS: c.NodeNetNS(n.Name), IPv4: n.IPv4, IPv6: n.IPv6})
	}
	return addons.ConfigureBridges(nodes)
}

// installDNS applies the cluster's DNS and, unless it may come later, waits for it.
func (c *Cluster) installDNS(ctx context.Context, o Options) error {
	dns4, dns6 := clusterDNS()
	dns := addons.DNS{Image: images.CoreDNS, VIPs: []string{dns4.String(), dns6.String()}, ServiceRanges: serviceRanges()}
	if o.CNI.others() {
		// Nobody serves ClusterIPs there.
		dns.APIServer, dns.APIServerPort = c.Nodes()[0].IPv4.String(), control.Port
	}
	manifest, err := dns.Manifest()
	if err != nil {
		return err
	}
	c.progress("waiting for admission")
	if err := objects.WaitForAdmission(ctx, c.Client(), !o.CNI.others()); err != nil {
		return err
	}
	if o.DNSLater {
		return c.Apply(ctx, manifest)
	}
	c.progress("waiting for cluster DNS")
	if err := c.Apply(ctx, manifest); err != nil {
		return err
	}
	return c.WaitDeploymentReady(ctx, "kube-system", "coredns")
}
