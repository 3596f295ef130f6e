// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command flannel runs flannel on a node of the lab, as flanneld does with --kube-subnet-mgr and
// --ip-masq: its own packages take the node's ranges from the API server, make the VXLAN, and
// write the file for the CNI plugin. flanneld itself has backends of clouds, whose clients are
// not among the modules that everybody gets.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/flannel-io/flannel/pkg/backend"
	_ "github.com/flannel-io/flannel/pkg/backend/vxlan" // registers the backend
	"github.com/flannel-io/flannel/pkg/ip"
	"github.com/flannel-io/flannel/pkg/ipmatch"
	"github.com/flannel-io/flannel/pkg/subnet"
	"github.com/flannel-io/flannel/pkg/subnet/kube"
	"github.com/flannel-io/flannel/pkg/trafficmngr/nftables"
	"k8s.io/klog/v2"
)

func main() {
	var p paths
	flag.StringVar(&p.kubeconfig, "kubeconfig-file", "", "kubeconfig of the API server")
	flag.StringVar(&p.config, "net-config-path", "", "configuration of the network")
	flag.StringVar(&p.subnet, "subnet-file", "", "file for the CNI plugin")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, p); err != nil {
		klog.Exit(err)
	}
}

type paths struct{ kubeconfig, config, subnet string }

// run serves the node, whose name is in the environment variable NODE_NAME.
func run(ctx context.Context, p paths) error {
	manager, err := kube.NewSubnetManager(ctx, "", p.kubeconfig, "flannel.alpha.coreos.com", p.config, true)
	if err != nil {
		return fmt.Errorf("read the network: %w", err)
	}
	config, err := manager.GetNetworkConfig(ctx)
	if err != nil {
		return fmt.Errorf("read the network: %w", err)
	}
	var all sync.WaitGroup
	network, err := register(ctx, manager, config, &all)
	if err != nil {
		return err
	}
	if err := admit(ctx, config, network); err != nil {
		return err
	}
	lease := network.Lease()
	if err := manager.HandleSubnetFile(p.subnet, config, true, lease.Subnet, lease.IPv6Subnet, network.MTU()); err != nil {
		return fmt.Errorf("write the file for the CNI plugin: %w", err)
	}
	all.Go(func() { network.Run(ctx) })
	err = manager.CompleteLease(ctx, lease, &all)
	all.Wait()
	return err
}

// register makes the VXLAN on the device that has the default route or the node's address.
func register(
	ctx context.Context,
	manager subnet.Manager,
	config *subnet.Config,
	all *sync.WaitGroup,
) (backend.Network, error) {
	families, err := ipmatch.GetIPFamily(config.EnableIPv4, config.EnableIPv6)
	if err != nil {
		return nil, fmt.Errorf("choose address families: %w", err)
	}
	device, err := ipmatch.LookupExtIface("eth0", "", "", families, ipmatch.PublicIPOpts{})
	if err != nil {
		return nil, fmt.Errorf("find the node's device: %w", err)
	}
	kind, err := backend.NewManager(ctx, manager, device).GetBackend(config.BackendType)
	if err != nil {
		return nil, fmt.Errorf("find the backend: %w", err)
	}
	return kind.RegisterNetwork(ctx, all, config)
}

// admit accepts forwarded packets of pods, and translates those that leave the cluster.
func admit(ctx context.Context, config *subnet.Config, network backend.Network) error {
	rules := &nftables.NFTablesManager{}
	if err := rules.Init(ctx); err != nil {
		return fmt.Errorf("make tables of the packet filter: %w", err)
	}
	err := rules.SetupAndEnsureMasqRules(ctx, config.Network, ip.IP4Net{}, ip.IP4Net{},
		config.IPv6Network, ip.IP6Net{}, ip.IP6Net{}, network.Lease(), 0, false)
	if err != nil {
		return fmt.Errorf("translate addresses: %w", err)
	}
	rules.SetupAndEnsureForwardRules(ctx, config.Network, config.IPv6Network, 0)
	return nil
}
