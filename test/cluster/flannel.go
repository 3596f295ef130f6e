// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/cluster/process"
)

// flannelNetwork is flannel's configuration. The lab's kernel may lack br_netfilter, without
// which flannel takes nftables only.
const flannelNetwork = `{"Network": "10.244.0.0/16", "EnableIPv6": true, "IPv6Network": "fd44::/48", "EnableNFTables": true, "Backend": {"Type": "vxlan"}}`

// startFlannel runs flannel on every node, and configures the plugin bridge by the file that it
// writes, as flannel's own plugin does.
func (c *Cluster) startFlannel(ctx context.Context) error {
	c.progress("starting flannel")
	cache, err := build.DefaultCache()
	if err != nil {
		return err
	}
	dir, err := (&build.Builder{Root: c.root, Cache: cache, Progress: c.progress}).Ensure(ctx, build.Flannel())
	if err != nil {
		return err
	}
	for i, n := range c.Nodes() {
		if err := c.assignPodRanges(ctx, n.Name, podRanges(i+1)); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes() {
		if err := c.startFlannelOn(ctx, n.Name, filepath.Join(dir, "flannel")); err != nil {
			return fmt.Errorf("start flannel on %s: %w", n.Name, err)
		}
	}
	return nil
}

// assignPodRanges does what a controller manager with --allocate-node-cidrs does.
func (c *Cluster) assignPodRanges(ctx context.Context, nodeName string, ranges []netip.Prefix) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"podCIDR": ranges[0], "podCIDRs": ranges}})
	if err != nil {
		return fmt.Errorf("encode the pod ranges of %s: %w", nodeName, err)
	}
	if _, err := c.Client().CoreV1().Nodes().Patch(ctx, nodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("assign pod ranges to %s: %w", nodeName, err)
	}
	return nil
}

func (c *Cluster) startFlannelOn(ctx context.Context, nodeName, program string) error {
	machine := c.machine(nodeName)
	config, subnet := machine.Path("flannel", "net-conf.json"), machine.Path("flannel", "subnet.env")
	if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
		return fmt.Errorf("make flannel's folder: %w", err)
	}
	if err := os.WriteFile(config, []byte(flannelNetwork), 0o644); err != nil {
		return fmt.Errorf("write flannel's configuration: %w", err)
	}
	child, err := c.start(ctx, nodeName, process.Spec{
		Name: nodeName + "/flannel",
		Args: []string{program, "--kubeconfig-file=" + c.Kubeconfig(), "--net-config-path=" + config, "--subnet-file=" + subnet},
		Env:  append(node.Environment(), "NODE_NAME="+nodeName),
		Log:  machine.LogFile("flannel"), Cgroups: machine.Daemons,
	})
	if err != nil {
		return err
	}
	return ready(ctx, "flannel serves "+nodeName, child, func(context.Context) error {
		text, err := os.ReadFile(subnet)
		if err != nil {
			return err
		}
		ranges, mtu, err := readSubnet(string(text))
		if err != nil {
			return err
		}
		return c.installBridge(nodeName, "10-flannel.conflist", ranges, mtu)
	})
}

// readSubnet reads the file that flannel writes for CNI plugins.
func readSubnet(text string) (ranges []netip.Prefix, mtu int, err error) {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = value
	}
	for _, key := range []string{"FLANNEL_SUBNET", "FLANNEL_IPV6_SUBNET"} {
		address, err := netip.ParsePrefix(values[key])
		if err != nil {
			return nil, 0, fmt.Errorf("read %s of flannel: %w", key, err)
		}
		ranges = append(ranges, address.Masked())
	}
	if mtu, err = strconv.Atoi(values["FLANNEL_MTU"]); err != nil {
		return nil, 0, fmt.Errorf("read FLANNEL_MTU of flannel: %w", err)
	}
	return ranges, mtu, nil
}
