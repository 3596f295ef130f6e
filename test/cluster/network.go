// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
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
	if err := c.waitForAdmission(ctx, o); err != nil {
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

// waitForAdmission returns when admission can judge Services, and Subnets where the chart is
// installed. For up to 30 s after the chart's first installation the API server does not know each
// kind of the policies' parameters, and refuses these objects (docs/tenants/outside.md).
func (c *Cluster) waitForAdmission(ctx context.Context, o Options) error {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "asks-admission"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	err := objects.WaitFor(ctx, "Services can be created", func(ctx context.Context) error {
		_, err := c.Client().CoreV1().Services("default").Create(ctx, service, dryRun)
		return err
	})
	if err != nil || o.CNI.others() {
		return err
	}
	return objects.WaitFor(ctx, "Subnets can be created", func(ctx context.Context) error {
		subnet := &v1alpha1.Subnet{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Subnet"},
			ObjectMeta: metav1.ObjectMeta{Name: "asks-admission"},
			Spec:       v1alpha1.SubnetSpec{VPC: "asks-admission", CIDRs: []string{"192.0.2.0/24"}},
		}
		body, err := json.Marshal(subnet)
		if err != nil {
			return err
		}
		path := "/apis/" + v1alpha1.GroupVersion.String() + "/subnets"
		return c.Client().CoreV1().RESTClient().Post().AbsPath(path).Param("dryRun", metav1.DryRunAll).Body(body).Do(ctx).Error()
	})
}
