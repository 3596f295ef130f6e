// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/cluster/underlay"
)

// proxyNode is a node whose pods are behind a Linux bridge, as the plugin bridge
// makes it, with Kubernetes' own kube-proxy in nftables mode.
type proxyNode struct{ *bareNode }

const (
	proxyRange   = "10.244.0.0/16"
	proxyGateway = "10.244.0.1/24"
	// proxyMetrics and proxyHealth are where kube-proxy listens.
	proxyMetrics, proxyHealth = "127.0.0.1:10249", "127.0.0.1:10256"
)

// proxyPods are the addresses of the node's pods, by name.
func proxyPods() map[string]netip.Addr {
	return map[string]netip.Addr{"first": netip.MustParseAddr("10.244.0.2"), "second": netip.MustParseAddr("10.244.0.3")}
}

// buildKubeProxy returns the file of the program.
func (b *bench) buildKubeProxy(ctx context.Context) (string, error) {
	cache, err := build.DefaultCache()
	if err != nil {
		return "", err
	}
	builder := build.Builder{Root: b.root, Cache: cache, Progress: b.step}
	dir, err := builder.Ensure(ctx, build.KubeProxy())
	return filepath.Join(dir, "kube-proxy"), err
}

// newProxyNode makes the node and its pods; whoever does so removes it, also after
// an error.
func newProxyNode(ctx context.Context, name, address, program string, server *apiserver.Server) (*proxyNode, error) {
	n, err := newBareNode(ctx, name, address, program, server.Config())
	p := &proxyNode{n}
	if err != nil {
		return p, err
	}
	on := "ip -n " + name + " "
	steps := []string{on + "link add cni0 type bridge", on + "addr add " + proxyGateway + " dev cni0", on + "link set cni0 up"}
	for pod, ip := range proxyPods() {
		in := "ip -n " + p.podNetNS(pod) + " "
		steps = slices.Concat(steps, []string{
			"ip netns add " + p.podNetNS(pod), on + "link add " + pod + " type veth peer name eth0 netns " + p.podNetNS(pod),
			on + "link set " + pod + " mtu " + referencePodMTU + " master cni0 up", on + "link set " + pod + " type bridge_slave hairpin on",
			in + "link set lo up", in + "link set eth0 mtu " + referencePodMTU + " up", in + "addr add " + ip.String() + "/24 dev eth0",
			in + "route add default via " + netip.MustParsePrefix(proxyGateway).Addr().String(),
		})
	}
	for _, step := range steps {
		if err := runStep(ctx, step); err != nil {
			return p, err
		}
	}
	return p, inNetNS(p.netns(), func() error {
		// What Kubernetes asks of a node with such a network.
		return errors.Join(
			os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0),
			os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("1"), 0),
		)
	})
}

// start starts kube-proxy.
func (p *proxyNode) start(ctx context.Context) error {
	return p.launch(ctx,
		"--kubeconfig="+filepath.Join(p.folder, "kubeconfig"), "--hostname-override="+p.name, "--proxy-mode=nftables",
		"--detect-local-mode=ClusterCIDR", "--cluster-cidr="+proxyRange, "--metrics-bind-address="+proxyMetrics, "--healthz-bind-address="+proxyHealth,
		// What belongs to all namespaces of the kernel stays as it is.
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s")
}

// pod is the network namespace of a pod.
func (p *proxyNode) pod(name string) string { return underlay.NetNSPath(p.podNetNS(name)) }
