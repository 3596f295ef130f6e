// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/test/cluster/process"
)

// StaticPods is the folder of a node with the static pods that its kubelet runs.
const StaticPods = "/var/lib/kubelet/static-pods"

// Membership has the data that a node's kubelet needs to join a cluster.
type Membership struct {
	// Bin is the folder with the kubelet.
	Bin string
	// IPs are the node's addresses, one per family.
	IPs []netip.Addr
	// ClusterDNS is the address that pods ask for names.
	ClusterDNS []netip.Addr
	// Authority, Cert, Key and Kubeconfig are files: who signs clients, the
	// kubelet's serving certificate and key, and its access to the API.
	Authority, Cert, Key, Kubeconfig string
	// Slow: pods that may run on other nodes are to run there.
	Slow bool
}

// Kubelet writes the kubelet's configuration and returns how to run it.
func (m Machine) Kubelet(c Membership) (process.Spec, error) {
	raw, err := yaml.Marshal(m.kubeletConfig(c))
	if err != nil {
		return process.Spec{}, fmt.Errorf("encode the kubelet's configuration: %w", err)
	}
	config := m.Path("kubelet.yaml")
	if err := os.WriteFile(config, raw, 0o644); err != nil {
		return process.Spec{}, fmt.Errorf("write the kubelet's configuration: %w", err)
	}
	nodeIP := c.IPs[0].String()
	for _, ip := range c.IPs[1:] {
		nodeIP += "," + ip.String()
	}
	return process.Spec{
		Name: m.Name + "/kubelet",
		Args: []string{
			filepath.Join(c.Bin, "kubelet"),
			"--config=" + config,
			"--kubeconfig=" + c.Kubeconfig,
			"--hostname-override=" + m.Name,
			"--node-ip=" + nodeIP,
		},
		// A node's address and MTU change while connections to the API server are open.
		// By default the kubelet gives them up after 45 s.
		Env: append(Environment(), "HTTP2_READ_IDLE_TIMEOUT_SECONDS=5", "HTTP2_PING_TIMEOUT_SECONDS=10"),
		Log: m.LogFile("kubelet"), Cgroups: m.Daemons,
	}, nil
}

// kubeletConfig returns a KubeletConfiguration (kubelet.config.k8s.io/v1beta1).
func (m Machine) kubeletConfig(c Membership) map[string]any {
	taints := []map[string]any{}
	if c.Slow {
		taints = append(taints, map[string]any{"key": "test.alioth.dev/slow", "effect": "PreferNoSchedule"})
	}
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": c.Authority},
		},
		"authorization":            map[string]any{"mode": "Webhook"},
		"tlsCertFile":              c.Cert,
		"tlsPrivateKeyFile":        c.Key,
		"clusterDomain":            "cluster.local",
		"clusterDNS":               c.ClusterDNS,
		"resolvConf":               "", // pods must not depend on the host's DNS
		"containerRuntimeEndpoint": "unix://" + Socket,
		"volumePluginDir":          "/var/lib/kubelet/volume-plugins",
		"staticPodPath":            StaticPods,

		// The node shares its machine with others: everything stays below one
		// cgroup, and limits that are meant for a whole machine are off.
		"cgroupDriver":           "cgroupfs",
		"cgroupRoot":             "/" + m.Name,
		"failCgroupV1":           false,
		"enforceNodeAllocatable": []string{},
		"failSwapOn":             false,
		"oomScoreAdj":            0,
		"makeIPTablesUtilChains": false,
		"maxPods":                250,
		"registerWithTaints":     taints,

		// Tests kill containers again and again and wait for them: a kubelet that
		// doubles its delay from ten seconds on makes them wait for minutes. Before 1.35
		// kubelets need the feature gate.
		"featureGates":     map[string]bool{"KubeletCrashLoopBackOffMax": true},
		"crashLoopBackOff": map[string]any{"maxContainerRestartPeriod": "1s"},

		// A quarter of this is the time between two renewals of the node's lease: tests
		// take the API server away until one is late.
		"nodeLeaseDurationSeconds": 12,

		// No registry has an image once it is deleted.
		"imageGCHighThresholdPercent": 100,
		"evictionHard": map[string]string{
			"memory.available": "1%", "nodefs.available": "1%", "nodefs.inodesFree": "1%", "imagefs.available": "1%",
		},
	}
}
