// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package addons

import (
	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/cluster/process"
)

// KubeProxyHealth is where kube-proxy answers health checks on its node.
const KubeProxyHealth = "127.0.0.1:10256"

// KubeProxy returns the process of kube-proxy on a node, in one of its modes.
func KubeProxy(machine node.Machine, program, kubeconfig, mode, podRanges string) process.Spec {
	return process.Spec{
		Name: machine.Name + "/kube-proxy",
		Args: []string{
			program, "--kubeconfig=" + kubeconfig, "--hostname-override=" + machine.Name, "--proxy-mode=" + mode,
			"--detect-local-mode=ClusterCIDR", "--cluster-cidr=" + podRanges,
			"--healthz-bind-address=" + KubeProxyHealth, "--metrics-bind-address=127.0.0.1:10249",
			// Settings of all namespaces of the kernel stay as they are.
			"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s",
		},
		Env: node.Environment(),
		Log: machine.LogFile("kube-proxy"), Cgroups: machine.Daemons,
	}
}

// KubeProxyLeaves removes what kube-proxy makes in iptables mode and its own clean-up
// leaves, because a kubelet may have made it too.
const KubeProxyLeaves = `for command in iptables ip6tables; do
	for chain in INPUT OUTPUT; do $command -D $chain -j KUBE-FIREWALL; done
	$command -F KUBE-FIREWALL; $command -X KUBE-FIREWALL
done 2>/dev/null
echo 0 > /proc/sys/net/ipv4/conf/all/route_localnet`
