// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"path/filepath"

	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/cluster/process"
)

// KubeProxyHealth is where kube-proxy answers health checks on its node.
const KubeProxyHealth = "127.0.0.1:10256"

// StartKubeProxy runs Kubernetes' own kube-proxy on a node, in one of its modes. It
// returns when the process runs, which StopProcess ends under the name
// "<node>/kube-proxy"; its rules stay until RemoveKubeProxy.
func (c *Cluster) StartKubeProxy(ctx context.Context, nodeName, mode, podRanges string) error {
	program, err := c.kubeProxy(ctx)
	if err != nil {
		return err
	}
	machine := c.machine(nodeName)
	_, err = c.start(ctx, nodeName, process.Spec{
		Name: nodeName + "/kube-proxy",
		Args: []string{
			program, "--kubeconfig=" + c.Kubeconfig(), "--hostname-override=" + nodeName, "--proxy-mode=" + mode,
			"--detect-local-mode=ClusterCIDR", "--cluster-cidr=" + podRanges,
			"--healthz-bind-address=" + KubeProxyHealth, "--metrics-bind-address=127.0.0.1:10249",
			// Settings of all namespaces of the kernel stay as they are.
			"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s",
		},
		Env: node.Environment(),
		Log: machine.LogFile("kube-proxy"), Cgroups: machine.Daemons,
	})
	return err
}

// kubeProxyLeaves removes the rules that kube-proxy makes in iptables mode and its own clean-up
// leaves, because a kubelet may have made them too.
const kubeProxyLeaves = `for command in iptables ip6tables; do
	for chain in INPUT OUTPUT; do $command -D $chain -j KUBE-FIREWALL; done
	$command -F KUBE-FIREWALL; $command -X KUBE-FIREWALL
done 2>/dev/null
echo 0 > /proc/sys/net/ipv4/conf/all/route_localnet`

// RemoveKubeProxy ends kube-proxy on a node, if it runs, and removes its rules of every
// mode by kube-proxy's own clean-up.
func (c *Cluster) RemoveKubeProxy(ctx context.Context, nodeName string) error {
	program, err := c.kubeProxy(ctx)
	if err != nil {
		return err
	}
	if _, ran := c.state.get().Daemons[nodeName+"/kube-proxy"]; ran {
		if err := c.StopProcess(ctx, nodeName+"/kube-proxy"); err != nil {
			return err
		}
	}
	if _, err = c.NodeExec(ctx, nodeName, program, "--cleanup"); err != nil {
		return err
	}
	_, err = c.NodeExec(ctx, nodeName, "sh", "-c", kubeProxyLeaves)
	return err
}

// kubeProxy returns the program's file.
func (c *Cluster) kubeProxy(ctx context.Context) (string, error) {
	cache, err := build.DefaultCache()
	if err != nil {
		return "", err
	}
	dir, err := (&build.Builder{Root: c.root, Cache: cache, Progress: c.progress}).Ensure(ctx, build.KubeProxy())
	return filepath.Join(dir, "kube-proxy"), err
}
