// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/cluster/underlay"
)

// Proxy is a node whose pods are behind a Linux bridge, as the plugin bridge
// makes it, with Kubernetes' own kube-proxy in nftables mode.
type Proxy struct{ *Node }

// PodMTU is the MTU of pods behind a bridge, in bytes.
const PodMTU = "1450"

const (
	proxyRange   = "10.244.0.0/16"
	proxyGateway = "10.244.0.1/24"
	// proxyMetrics and proxyHealth are where kube-proxy listens.
	proxyMetrics, proxyHealth = "127.0.0.1:10249", "127.0.0.1:10256"
)

// ProxyPods returns the addresses of the node's pods, by name.
func ProxyPods() map[string]netip.Addr {
	return map[string]netip.Addr{"first": netip.MustParseAddr("10.244.0.2"), "second": netip.MustParseAddr("10.244.0.3")}
}

// NewProxy makes the node and its pods; the caller removes them, also after
// an error.
func NewProxy(ctx context.Context, name, address, program string, server *apiserver.Server) (*Proxy, error) {
	n, err := New(ctx, name, address, program, server.Config())
	p := &Proxy{n}
	if err != nil {
		return p, err
	}
	on := "ip -n " + name + " "
	steps := []string{
		on + "link add cni0 type bridge",
		on + "addr add " + proxyGateway + " dev cni0",
		on + "link set cni0 up",
	}
	for pod, ip := range ProxyPods() {
		in := "ip -n " + p.PodNetNS(pod) + " "
		steps = slices.Concat(steps, []string{
			"ip netns add " + p.PodNetNS(pod), on + "link add " + pod + " type veth peer name eth0 netns " + p.PodNetNS(pod),
			on + "link set " + pod + " mtu " + PodMTU + " master cni0 up", on + "link set " + pod + " type bridge_slave hairpin on",
			in + "link set lo up", in + "link set eth0 mtu " + PodMTU + " up", in + "addr add " + ip.String() + "/24 dev eth0",
			in + "route add default via " + netip.MustParsePrefix(proxyGateway).Addr().String(),
		})
	}
	for _, step := range steps {
		if err := RunStep(ctx, step); err != nil {
			return p, err
		}
	}
	return p, inNetNS(p.NetNS(), func() error {
		// Kubernetes requires these of a node with such a network.
		return errors.Join(
			os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0),
			os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("1"), 0),
		)
	})
}

// Start starts kube-proxy.
func (p *Proxy) Start(ctx context.Context) error {
	return p.launch(
		ctx,
		"--kubeconfig="+filepath.Join(p.folder, "kubeconfig"),
		"--hostname-override="+p.Name,
		"--proxy-mode=nftables",
		"--detect-local-mode=ClusterCIDR",
		"--cluster-cidr="+proxyRange,
		"--metrics-bind-address="+proxyMetrics,
		"--healthz-bind-address="+proxyHealth,
		// Settings of all namespaces of the kernel stay as they are.
		"--conntrack-max-per-core=0",
		"--conntrack-tcp-timeout-established=0s",
		"--conntrack-tcp-timeout-close-wait=0s",
	)
}

// Pod returns the network namespace of a pod.
func (p *Proxy) Pod(name string) string { return underlay.NetNSPath(p.PodNetNS(name)) }
